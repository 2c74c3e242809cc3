package local

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(part), &object), part)
		if object == nil {
			continue
		}
		metadata, ok := object["metadata"].(map[string]any)
		require.True(t, ok, part)
		kind, _ := object["kind"].(string)
		name, _ := metadata["name"].(string)
		found[kind+" "+name] = object
	}
	return found
}

func TestManifestsAreCompleteObjects(t *testing.T) {
	t.Parallel()
	dir := state.Dir(t.TempDir())
	text, err := addonManifests(dir, image.Image{Name: "coredns"}, image.Image{Name: "registry"})
	require.NoError(t, err)
	found := objects(t, text)
	for _, want := range []string{
		"Deployment coredns", "Service kube-dns", "ConfigMap coredns", "Deployment registry", "Service registry", "StorageClass local",
		"PersistentVolume local-00", "PersistentVolume local-19",
	} {
		require.Contains(t, found, want)
	}
	require.DirExists(t, dir.Path("volumes", "local-19"))
	require.Contains(t, text, "path: "+registryData(dir))
}

func TestCoreDNSForwardsOnlyToUpstreamNameservers(t *testing.T) {
	t.Parallel()
	text, err := render("addons/*.yaml", addonSettings{Nameservers: []string{"192.0.2.1", "192.0.2.2"}})
	require.NoError(t, err)
	require.Contains(t, text, "forward . 192.0.2.1 192.0.2.2 \n")
	text, err = render("addons/*.yaml", addonSettings{})
	require.NoError(t, err)
	require.NotContains(t, text, "forward")
}

func TestKustomizationPutsOurImagesOverKEDAsManifests(t *testing.T) {
	t.Parallel()
	dir := state.Dir(t.TempDir())
	require.NoError(t, host.WritePKI(dir, host.Members(1)))
	config := t.TempDir()
	require.NoError(t, state.Write(config+"/crd/kustomization.yaml", "resources: []\n"))
	operator := image.Image{Name: "keda-operator"}
	target, err := writeKustomization(dir, config, operator, image.Image{Name: "keda-adapter"})
	require.NoError(t, err)
	require.FileExists(t, target+"/config/crd/kustomization.yaml")

	text, err := render("keda/kustomization.yaml", kedaSettings{Operator: operator, Adapter: image.Image{Name: "keda-adapter"}, CABundle: "Y2E="})
	require.NoError(t, err)
	var parsed struct {
		Images []struct{ Name, NewName, NewTag string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &parsed))
	require.Equal(t, "rouse.local/keda-operator", parsed.Images[0].NewName)
	require.Equal(t, operator.Tag(), parsed.Images[0].NewTag)
}
