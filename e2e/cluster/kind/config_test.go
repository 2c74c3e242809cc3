package kind

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/release"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

func TestConfigOfKindMountsWhatTheNodeFindsTheRegistryBy(t *testing.T) {
	t.Parallel()
	text, err := config("/state", 1)
	require.NoError(t, err)
	var parsed map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &parsed))
	require.Equal(t, map[string]any{
		"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4",
		"networking":              map[string]any{"serviceSubnet": "10.96.0.0/16", "kubeProxyMode": "iptables"},
		"containerdConfigPatches": []any{"[plugins.\"io.containerd.cri.v1.images\".registry]\n  config_path = \"/etc/containerd/certs.d\"\n"},
		"nodes": []any{map[string]any{"role": "control-plane", "extraMounts": []any{
			map[string]any{"hostPath": "/state/config/hosts", "containerPath": "/etc/containerd/certs.d", "readOnly": true},
			map[string]any{"hostPath": "/state/pki", "containerPath": "/etc/rouse-pki", "readOnly": true},
		}}},
	}, parsed)
}

func TestEachNodeOfSeveralFindsTheRegistry(t *testing.T) {
	t.Parallel()
	text, err := config("/state", 3)
	require.NoError(t, err)
	var parsed struct {
		Nodes []struct {
			Role        string
			ExtraMounts []map[string]any
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &parsed))
	require.Len(t, parsed.Nodes, 3)
	for i, node := range parsed.Nodes {
		require.Equal(t, map[bool]string{true: "control-plane", false: "worker"}[i == 0], node.Role)
		require.Len(t, node.ExtraMounts, 2)
	}
}

func TestFilesOfTheNodeLieWhereTheConfigMountsThem(t *testing.T) {
	t.Parallel()
	dir := state.Dir(t.TempDir())
	require.NoError(t, writeFiles(dir, 1))
	for _, file := range []string{
		"config/kind.yaml", "config/hosts/" + node.RegistryHost + "/hosts.toml", "pki/ca.crt", "pki/registry.crt", "pki/registry.key",
	} {
		require.FileExists(t, dir.Path(file))
	}
	text, err := os.ReadFile(hostsFile(dir))
	require.NoError(t, err)
	require.Equal(t, `server = "https://10.96.0.50:5000"

[host."https://10.96.0.50:5000"]
  capabilities = ["pull", "resolve", "push"]
  ca = "/etc/rouse-pki/ca.crt"
`, string(text))
}

func TestCommandLinesOfKindAndOfTheNode(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"create cluster --name rouse --config /s/config/kind.yaml --kubeconfig /s/kubeconfig --wait 5m": createArgs("/s"),
		"delete cluster --name rouse --kubeconfig /s/kubeconfig":                                        deleteArgs("/s"),
		"load image-archive /s/images.tar --name rouse":                                                 loadArgs("/s/images.tar"),
		"exec rouse-control-plane ctr --namespace k8s.io images list --quiet":                           inNode("list", "--quiet"),
	} {
		require.Equal(t, want, strings.Join(args, " "))
	}
}

func TestKEDAIsTheVersionThatTheLocalClusterBuilds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "components", "keda", "go.mod"))
	require.NoError(t, err)
	require.Regexp(t, `github.com/kedacore/keda/v2 v`+regexp.QuoteMeta(kedaVersion)+`\s`, string(text))
}

func TestImagesAreBuiltByTheDockerfilesOfTheRepository(t *testing.T) {
	t.Parallel()
	runtimes, err := release.Choose([]string{"nodejs22", "python314"})
	require.NoError(t, err)
	var lines []string
	for _, one := range builds("/repo", runtimes) {
		lines = append(lines, one.Name+": docker "+strings.Join(one.Args, " "))
		require.Equal(t, one.Name == sourcesName, one.Stdin != "")
	}
	require.Equal(t, []string{
		"rouse.local/rouse: docker build --quiet --load --build-arg VERSION=local /repo",
		"rouse.local/source-server: docker build --quiet --load " +
			"--build-arg PACKAGES=ca-certificates git openssh-server lighttpd lighttpd-mod-openssl -",
		"registry.kube-system.svc.cluster.local:5000/rouse-runtime-nodejs22: docker build --quiet --load " +
			"--build-arg BASE_IMAGE=docker.io/library/node:22-bookworm-slim /repo/runtimes/nodejs",
		"registry.kube-system.svc.cluster.local:5000/rouse-runtime-python314: docker build --quiet --load " +
			"--build-arg BASE_IMAGE=docker.io/library/python:3.14-slim /repo/runtimes/python",
	}, lines)
}

func TestBaseImagesAreThoseOfTheDockerfiles(t *testing.T) {
	t.Parallel()
	for _, runtime := range release.Catalogue() {
		if runtime.Name != "nodejs22" && runtime.Name != "python312" && runtime.Name != "go126" { // by which a Dockerfile builds without an argument
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "runtimes", runtime.Kind, "Dockerfile"))
		require.NoError(t, err)
		require.Contains(t, string(text), "ARG BASE_IMAGE="+strings.TrimPrefix(baseImage(runtime), "docker.io/library/")+"\n")
	}
}

func TestAnImageIsNamedByWhatDockerPrinted(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{
		"sha256:0123456789abcdef0123\n": "rouse.local/rouse:0123456789ab",
		"sha256:0123":                   "",
		"Successfully built":            "",
		"":                              "",
	} {
		got, err := reference(rouseName, printed)
		require.Equal(t, want, got)
		require.Equal(t, want == "", err != nil, printed)
	}
}

func TestOnlyImagesThatTheNodeLacksAreMissing(t *testing.T) {
	t.Parallel()
	listed := "docker.io/library/registry:3\nrouse.local/rouse:1\nsha256:abc\n"
	require.Equal(t, []string{"rouse.local/rouse:2"}, missing(listed, []string{"rouse.local/rouse:1", "rouse.local/rouse:2"}))
	require.Empty(t, missing(listed, []string{"rouse.local/rouse:1"}))
}

func TestValuesNameTheBuiltImagesAndLeaveOthersToTheChart(t *testing.T) {
	t.Parallel()
	runtimes, err := release.Choose([]string{"nodejs22"})
	require.NoError(t, err)
	text, err := values(map[string]string{
		rouseName: image.Prefix + "rouse:1", runtimeName(runtimes[0]): runtimeName(runtimes[0]) + ":2",
	}, runtimes, "-----BEGIN CERTIFICATE-----")
	require.NoError(t, err)
	var parsed map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &parsed))
	require.Equal(t, map[string]any{"repository": "rouse.local/rouse", "tag": "1"}, parsed["image"])
	require.Equal(t, "-----BEGIN CERTIFICATE-----", parsed["caBundle"])
	offered, ok := parsed["runtimes"].(map[string]any)
	require.True(t, ok)
	require.Len(t, offered, len(release.Catalogue()))
	require.Equal(t, "registry.kube-system.svc.cluster.local:5000/rouse-runtime-nodejs22:2", offered["nodejs22"])
	require.Nil(t, offered["python312"])
	require.NotContains(t, parsed, "nats")
	require.NotContains(t, parsed, "registry")
	require.Equal(t, "debug", parsed["logLevel"])
}
