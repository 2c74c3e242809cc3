package rouse

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/local"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

func values(t *testing.T, images Images) map[string]any {
	t.Helper()
	text, err := images.Values()
	require.NoError(t, err)
	var parsed map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &parsed))
	return parsed
}

func TestValuesContainTheImagesAndRemoveOtherRuntimes(t *testing.T) {
	t.Parallel()
	images := Images{
		Rouse: image.Image{Name: "rouse"}, NATS: image.Image{Name: "rouse-nats"},
		Registry: image.Image{Name: "registry"}, CABundle: "-----BEGIN CERTIFICATE-----",
		Runtimes: map[string]image.Image{"nodejs22": {Name: "rouse-runtime-nodejs22", Registry: local.RegistryHost}},
	}
	got := values(t, images)
	require.Equal(t, map[string]any{"repository": "rouse.local/rouse", "tag": images.Rouse.Tag()}, got["image"])
	runtimes, ok := got["runtimes"].(map[string]any)
	require.True(t, ok)
	require.Len(t, runtimes, len(Catalogue()))
	pinned, err := images.Runtimes["nodejs22"].Pinned()
	require.NoError(t, err)
	require.Equal(t, pinned, runtimes["nodejs22"])
	require.Contains(t, pinned, "registry.kube-system.svc.cluster.local:5000/rouse-runtime-nodejs22@sha256:")
	require.Nil(t, runtimes["python312"])
	require.Equal(t, images.CABundle, got["caBundle"])
	require.Equal(t, map[string]any{"internal": map[string]any{
		"image":     map[string]any{"repository": "rouse.local/registry", "tag": images.Registry.Tag()},
		"clusterIP": buildsAddress, "pullAddress": buildsHost, "persistence": map[string]any{"size": "10Gi"},
	}}, got["registry"])
	require.NotContains(t, got, "stream")
}

func TestValuesPointAtTheClusterOfNATSServers(t *testing.T) {
	t.Parallel()
	got := values(t, Images{NATSURL: natsURL(3), StreamReplicas: 3})
	require.Equal(t, map[string]any{"replicas": 3.0}, got["stream"])
	require.Equal(t, map[string]any{"enabled": false, "external": map[string]any{"url": "nats://nats-0.nats.nats-system.svc.cluster.local:4222," +
		"nats://nats-1.nats.nats-system.svc.cluster.local:4222,nats://nats-2.nats.nats-system.svc.cluster.local:4222"}}, got["nats"])
}

func TestOnSeveralNodesTheAPIServersProxyMayCallFunctions(t *testing.T) {
	t.Parallel()
	from := func(images Images) any {
		functions, ok := values(t, images)["functions"].(map[string]any)
		require.True(t, ok)
		policies, ok := functions["networkPolicies"].(map[string]any)
		require.True(t, ok)
		return policies["from"]
	}
	own := map[string]any{"podSelector": map[string]any{}}
	require.Equal(t, []any{own}, from(Images{}))
	require.Equal(t, []any{own, map[string]any{"ipBlock": map[string]any{"cidr": host.LinkRange}}}, from(Images{Nodes: host.LinkRange}))
}

func TestChooseAcceptsOnlyRuntimesOfTheCatalogue(t *testing.T) {
	t.Parallel()
	chosen, err := Choose(DefaultRuntimes())
	require.NoError(t, err)
	require.Len(t, chosen, len(DefaultRuntimes()))
	_, err = Choose([]string{"nodejs22", "ruby33"})
	require.ErrorContains(t, err, `there is no runtime "ruby33"`)
}

func TestRuntimesHaveTheVersionInTheirName(t *testing.T) {
	t.Parallel()
	for _, runtime := range Catalogue() {
		language := strings.TrimRight(runtime.Name, "0123456789")
		release := strings.TrimPrefix(runtime.Name, language)
		really := strings.Fields(strings.ReplaceAll(runtime.Really, ".", ""))
		require.True(t, slices.ContainsFunc(really, func(word string) bool { return strings.HasPrefix(word, release) }), "%s is %s", runtime.Name, runtime.Really)
	}
}

func TestPortableInterpreterGetsThePathOfTheAuthorities(t *testing.T) {
	t.Parallel()
	source := Source{Repository: filepath.Join("..", "..", "..")}
	for _, runtime := range Catalogue() {
		config, err := source.config(runtime)
		require.NoError(t, err)
		require.Equal(t, runtime.Name == "python312", slices.Contains(config.Env, authorities), runtime.Name)
		require.True(t, slices.IsSorted(config.Env))
	}
}

func TestImageFileBecomesTheImagesConfiguration(t *testing.T) {
	t.Parallel()
	config, err := parseConfig([]byte(`{
		"entrypoint": ["node", "/usr/src/app/server.js"], "workdir": "/usr/src/app/function", "user": "1000:1000",
		"env": {"NODE_ENV": "production"}, "port": 8080
	}`), "Node.js 22")
	require.NoError(t, err)
	require.Equal(t, []string{"node", "/usr/src/app/server.js"}, config.Entrypoint)
	require.Equal(t, "1000:1000", config.User)
	require.Contains(t, config.Env, "NODE_ENV=production")
	require.Contains(t, config.Env, searchPath)
	require.Contains(t, config.ExposedPorts, "8080/tcp")
	require.Equal(t, "Node.js 22", config.Labels["run.rouse.language"])

	_, err = parseConfig([]byte(`{"entrypoint": "node"}`), "")
	require.Error(t, err)
}

func TestSourcesOfARuntimeAreWithoutPackagesAndTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"server.js", "lib/main.js", "node_modules/a/index.js", "test/a.test.js", "tests/test_a.py", "__pycache__/a.pyc", ".eslintrc", "language.go", "function/serve.go"} {
		require.NoError(t, state.Write(filepath.Join(dir, name), "x"))
	}
	sources, err := sourcesOf(dir)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "function/serve.go"), filepath.Join(dir, "lib/main.js"), filepath.Join(dir, "server.js")}, sources)
}

func TestFixturesContainTheImageOfTheSourceServer(t *testing.T) {
	t.Parallel()
	var object struct{ Data map[string]string }
	require.NoError(t, yaml.Unmarshal([]byte(fixtures("rouse.local/source-server:1")), &object))
	require.Equal(t, map[string]string{"source-server": "rouse.local/source-server:1"}, object.Data)
}

func TestNATSClusterListsAllItsServers(t *testing.T) {
	t.Parallel()
	text, err := natsManifests(image.Image{Name: "rouse-nats"}, 3)
	require.NoError(t, err)
	require.Contains(t, text, "\nkind: StatefulSet\nmetadata: {name: nats, ")
	require.Equal(t, 3, strings.Count(text, ".nats.nats-system.svc.cluster.local:6222"))
}
