//go:build e2e

package fips

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

const built = 3 * time.Minute

// packaged needs a package, so that it is built.
var packaged = framework.Function{
	Name: "packaged", Runtime: "nodejs22", Dependencies: `{"dependencies":{"lodash":"4.17.21"}}`,
	Source: `const _ = require('lodash'); module.exports.main = () => 'lodash ' + _.VERSION`,
}

func TestAReleaseInFIPSModeBuildsWakesAndRefuses(t *testing.T) {
	cluster, err := framework.Connect()
	require.NoError(t, err)
	t.Cleanup(func() { upgrade(t, "off") })
	for _, mode := range []string{"on", "only"} {
		t.Run(mode, func(t *testing.T) {
			upgrade(t, mode)
			namespace := cluster.TestNamespace(t, "fips")
			requireMode(t, cluster, mode)

			require.NoError(t, cluster.StartLedger(t.Context(), namespace))
			event := framework.Event{Type: "fips." + mode + ".v1", ID: "1", Data: map[string]any{"key": mode}}
			woken := framework.Function{
				Name: "woken", Runtime: "nodejs22", Max: 1, Asleep: true, Annotations: framework.Fast(), Source: framework.ReportingHandler(""),
			}
			subscription := framework.Subscription{Name: "woken", Namespace: namespace, Type: event.Type, Sink: "woken"}
			require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, packaged.YAML()+"---\n"+woken.YAML()+"---\n"+subscription.YAML()))
			require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "woken", "Running", "True", built))
			require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, "woken"))
			require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "woken", 0, 2*time.Minute))
			require.NoError(t, cluster.Publish(t.Context(), event))
			_, err := cluster.AwaitLedger(t.Context(), namespace, []string{mode}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "packaged", "lodash 4.17.21", built))
			refuse(t, cluster, namespace)
		})
	}
}

// upgrade waits until all pods run in the mode.
func upgrade(t *testing.T, mode string) {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "helm", "upgrade", "rouse", "../../charts/rouse", "--namespace", framework.System,
		"--reuse-values", "--set", "fips.mode="+mode, "--wait", "--timeout", "3m").CombinedOutput()
	require.NoError(t, err, string(out))
}

// requireMode checks the mode that each process logs at its start.
func requireMode(t *testing.T, cluster *framework.Cluster, mode string) {
	t.Helper()
	for component, container := range map[string]string{
		"controller": "controller", "eventbridge": "eventbridge", "scaler": "scaler", "gateway": "gateway", "registry": "proxy",
	} {
		pods, err := cluster.PodsOf(t.Context(), component)
		require.NoError(t, err)
		for i := range pods {
			log, err := cluster.Logs(t.Context(), framework.System, pods[i].Name, container, 10_000)
			require.NoError(t, err)
			require.Contains(t, log, fmt.Sprintf(`"fips":%q,"fipsModule":"v1.0.0"`, mode), pods[i].Name)
		}
	}
}

func refuse(t *testing.T, cluster *framework.Cluster, namespace string) {
	t.Helper()
	old := framework.Function{Name: "old", Runtime: "python312", Source: "def main(event, context):\n    return 'x'\n"}
	ssh := framework.Function{Name: "by-ssh", Runtime: "nodejs22", Git: &framework.Git{URL: "git@git.example.com:shop.git", Reference: "main", BaseDir: "/"}}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, old.YAML()+"---\n"+ssh.YAML()))
	for name, says := range map[string]string{"old": "python312 is refused in FIPS mode", "by-ssh": "Git over SSH is refused in FIPS mode"} {
		condition, err := cluster.AwaitMessage(t.Context(), namespace, name, "ConfigurationReady", "False", time.Minute, says)
		require.NoError(t, err)
		t.Log(condition.Message)
	}
}
