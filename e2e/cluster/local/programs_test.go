package local

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/state"
)

const dir = state.Dir("/state")

var alone = nodesOf(dir, 1)[0]

func TestKubeletRunsOnUnusualMachines(t *testing.T) {
	t.Parallel()
	var config map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(kubeletConfig(alone)), &config))
	require.Equal(t, false, config["failCgroupV1"])
	require.Equal(t, false, config["failSwapOn"])
	require.Equal(t, map[string]any{}, config["evictionHard"])
	require.Equal(t, "cgroupfs", config["cgroupDriver"])
	require.Equal(t, "unix:///state/containerd.sock", config["containerRuntimeEndpoint"])
	require.Equal(t, "/state/config/resolv.conf", config["resolvConf"])
}

func TestContainerdUsesOnlyItsDirectories(t *testing.T) {
	t.Parallel()
	config := containerdConfig(alone, "rouse.local/pause:1", "/usr/sbin/runc", "/usr/lib/cni")
	for _, want := range []string{
		`root = "/state/containerd/root"`, `state = "/state/containerd/state"`, `address = "/state/containerd.sock"`,
		`sandbox_image = "rouse.local/pause:1"`, `restrict_oom_score_adj = true`, `conf_dir = "/state/cni/net.d"`,
	} {
		require.Contains(t, config, want)
	}
}

func TestContainerdFindsTheRegistriesByTheirNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/state/config/hosts/"+RegistryHost+"/hosts.toml", hostsFile(dir, RegistryHost))
	require.Equal(t, "server = \"http://10.0.0.1:5000\"\n\n[host.\"http://10.0.0.1:5000\"]\n  capabilities = [\"pull\", \"resolve\", \"push\"]\n",
		registryHosts("http://10.0.0.1:5000", ""))
	require.Contains(t, registryHosts("https://10.0.0.1:5000", "/pki/ca.crt"), `ca = "/pki/ca.crt"`)
}

func TestPodsAreRoutedAndMasqueraded(t *testing.T) {
	t.Parallel()
	var config struct {
		Plugins []struct {
			Type   string
			IPMasq bool
			IPAM   struct{ DataDir string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(cniConfig(alone)), &config))
	require.Equal(t, "ptp", config.Plugins[0].Type)
	require.True(t, config.Plugins[0].IPMasq)
	require.Equal(t, "/state/cni/addresses", config.Plugins[0].IPAM.DataDir)
}

func TestResolvConf(t *testing.T) {
	t.Parallel()
	require.Equal(t, "nameserver 192.0.2.1\nnameserver 192.0.2.2\n", resolvConf([]string{"192.0.2.1", "192.0.2.2"}))
	require.Empty(t, resolvConf(nil))
}

func TestFurtherNodeHasItsOwnFilesAddressesAndCgroups(t *testing.T) {
	t.Parallel()
	all := nodesOf(dir, 3)
	require.Len(t, all, 3)
	require.Equal(t, dir, all[0].Dir)
	third := all[2]
	var config map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(kubeletConfig(third)), &config))
	require.Equal(t, "10.200.255.10", config["address"])
	require.Equal(t, "/rouse-cluster/rouse-3", config["cgroupRoot"])
	require.Equal(t, "unix:///state/nodes/3/containerd.sock", config["containerRuntimeEndpoint"])
	require.Equal(t, "/state/pki/kubelet-rouse-3.crt", config["tlsCertFile"])
	require.Contains(t, containerdConfig(third, "pause", "runc", "cni"), `root = "/state/nodes/3/containerd/root"`)
	require.Contains(t, cniConfig(third), `"subnet": "10.201.3.0/24"`)
}

func TestNetworkPoliciesSeeThePodsOfOtherNodes(t *testing.T) {
	t.Parallel()
	require.Contains(t, cniConfig(nodesOf(dir, 3)[1]), `"ipMasq": false`)
	require.Contains(t, policies(nodesOf(dir, 3)[1], "network-policies").Args, "--kubeconfig=/state/pki/network-policies.kubeconfig")
}
