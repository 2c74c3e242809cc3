package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

func TestTheChartIsWrittenWithOurImageInItsValues(t *testing.T) {
	t.Parallel()
	built := components.Built{Dir: t.TempDir()}
	require.NoError(t, state.Write(built.Path("charts", "gateway-helm", "values.tmpl.yaml"),
		"image: ${GatewayImage}\npullPolicy: ${GatewayImagePullPolicy}\n"))
	require.NoError(t, state.Write(built.Path("charts", "gateway-helm", "Chart.yaml"), "name: gateway-helm\n"))
	images := gatewayImages{Gateway: image.Image{Name: "envoy-gateway"}}
	dir := state.Dir(t.TempDir())
	for range 2 { // the second time over existing files
		chart, err := writeGatewayChart(dir, built, images)
		require.NoError(t, err)
		values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
		require.NoError(t, err)
		require.Equal(t, "image: "+images.Gateway.Reference()+"\npullPolicy: IfNotPresent\n", string(values))
		require.FileExists(t, filepath.Join(chart, "Chart.yaml"))
	}
}

func TestManifestsNameTheGatewayThatTheClusterWaitsFor(t *testing.T) {
	t.Parallel()
	images := gatewayImages{Proxy: image.Image{Name: "envoy"}}
	text, err := gatewayManifests(images)
	require.NoError(t, err)
	require.Contains(t, text, "image: "+images.Proxy.Reference()+"\n")
	var last struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
	for part := range strings.SplitSeq(text, "\n---\n") {
		require.NoError(t, yaml.Unmarshal([]byte(part), &last), part)
	}
	require.Equal(t, "Gateway", last.Kind)
	require.Equal(t, gatewayName, last.Metadata.Name)
	require.Equal(t, gatewayNamespace, last.Metadata.Namespace)

	values, err := gatewayValues()
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal([]byte(values), &map[string]any{}))
}

func TestImagesHaveTheProgramsWherePodsLookForThem(t *testing.T) {
	t.Parallel()
	store := image.Store{Cache: state.Cache(t.TempDir())}
	glibc, err := store.Layer("glibc", "k", func(file string) error { return pack.Files(file, nil) })
	require.NoError(t, err)
	built := func(name string) components.Built {
		dir := t.TempDir()
		require.NoError(t, state.Write(filepath.Join(dir, name), name))
		return components.Built{Component: components.Component{Name: name}, Dir: dir, Key: "k"}
	}
	images, err := makeGatewayImages(store, glibc, built("envoy-gateway"), built("envoy"))
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/local/bin/envoy-gateway"}, images.Gateway.Config.Entrypoint)
	require.Len(t, images.Gateway.Layers, 1)
	require.Equal(t, []string{"/usr/local/bin/envoy"}, images.Proxy.Config.Entrypoint)
	require.Equal(t, glibc, images.Proxy.Layers[0])
	require.Equal(t, []image.Image{images.Gateway, images.Proxy}, images.All())
}
