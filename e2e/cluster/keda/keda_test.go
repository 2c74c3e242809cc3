package keda

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/pki"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

func TestKustomizationPutsOurImagesOverKEDAsManifests(t *testing.T) {
	t.Parallel()
	dir := state.Dir(t.TempDir())
	require.NoError(t, pki.Write(dir, network.Members(1)))
	config := t.TempDir()
	require.NoError(t, state.Write(config+"/crd/kustomization.yaml", "resources: []\n"))
	operator := image.Image{Name: "keda-operator"}
	target, err := WriteKustomization(dir, config, operator, image.Image{Name: "keda-adapter"})
	require.NoError(t, err)
	require.FileExists(t, target+"/config/crd/kustomization.yaml")

	text, err := render("kustomization.yaml", settings{Operator: operator, Adapter: image.Image{Name: "keda-adapter"}, CABundle: "Y2E="})
	require.NoError(t, err)
	var parsed struct {
		Images []struct{ Name, NewName, NewTag string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &parsed))
	require.Equal(t, "rouse.local/keda-operator", parsed.Images[0].NewName)
	require.Equal(t, operator.Tag(), parsed.Images[0].NewTag)
}
