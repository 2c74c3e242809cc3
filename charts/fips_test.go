package charts

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/internal/fips"
)

// requireMode checks the mode of a process. Programs of third parties have no flag for it.
func requireMode(t *testing.T, container *corev1.Container, mode fips.Mode, ours bool, name string) {
	t.Helper()
	setting := ""
	for _, variable := range container.Env {
		if variable.Name == fips.Variable {
			setting = variable.Value
		}
	}
	require.Equal(t, mode.Setting(), setting, name)
	flag := slices.DeleteFunc(slices.Clone(container.Args), func(arg string) bool { return !strings.HasPrefix(arg, "--fips-mode") })
	if !ours || !mode.Asked() {
		require.Empty(t, flag, name)
		return
	}
	require.Equal(t, []string{"--fips-mode=" + string(mode)}, flag, name)
}

func TestEveryProcessOfAReleaseGetsTheFIPSMode(t *testing.T) {
	t.Parallel()
	for text, mode := range map[string]fips.Mode{
		"fips.mode=off": fips.Off, "fips.mode=on": fips.On, "fips.mode=only": fips.Only,
		"fips.mode=true": fips.On, "fips.mode=false": fips.Off, "fips=null": fips.Off, // YAML's forms of on and off, and values of earlier versions
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			all := render(t, values{"operator.enabled=true", "crds.keep=false", text})
			seen := map[string]bool{}
			for _, w := range workloads(all) {
				for i := range w.Pod.Spec.Containers {
					container := &w.Pod.Spec.Containers[i]
					ours := container.Name != "nats" && container.Name != "registry"
					seen[container.Name] = true
					requireMode(t, container, mode, ours, w.GetName()+"/"+container.Name)
				}
			}
			for _, name := range []string{"controller", "eventbridge", "scaler", "gateway", "operator", "proxy", "registry", "nats", "uninstall"} {
				require.True(t, seen[name], "no container %s among %v", name, seen)
			}
			brought, _ := broughtBy(t, installationOf(t, all))
			requireMode(t, &brought.Spec.Template.Spec.Containers[0], mode, true, "the Function controller of a Serverless")
		})
	}
}
