package kind

import (
	"fmt"
	"path"

	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

const (
	// Name of the cluster, as kind knows it.
	Name = "rouse"
	// container is the first node.
	container = Name + "-control-plane"

	// registryAddress is the Service of the registry in the cluster: of kind's own range, in the part that is not given out.
	registryAddress = "10.96.0.50"
	servicesRange   = "10.96.0.0/16"

	// Directories of the node.
	hostsDir    = "/etc/containerd/certs.d"
	pkiDir      = "/etc/rouse-pki"
	registryDir = "/var/lib/rouse-registry"

	// kedaVersion is the one that the other cluster builds.
	kedaVersion  = "2.21.0"
	kedaManifest = "https://github.com/kedacore/keda/releases/download/v" + kedaVersion + "/keda-" + kedaVersion + ".yaml"
)

// config is what kind makes the cluster from. Nodes find the cluster's registry, which containerd does not ask the cluster's DNS
// for, by files that they see in the state directory. The chart's registry is on a port of localhost, which kube-proxy gives with iptables.
// Of several nodes the first takes no pods. The network of kind enforces NetworkPolicies, with any number of nodes.
func config(dir state.Dir, nodes int) (string, error) {
	type mount struct {
		HostPath      string `json:"hostPath"`
		ContainerPath string `json:"containerPath"`
		ReadOnly      bool   `json:"readOnly"`
	}
	mounts := []mount{
		{HostPath: dir.Config("hosts"), ContainerPath: hostsDir, ReadOnly: true},
		{HostPath: dir.Path("pki"), ContainerPath: pkiDir, ReadOnly: true},
	}
	all := []any{map[string]any{"role": "control-plane", "extraMounts": mounts}}
	for len(all) < nodes {
		all = append(all, map[string]any{"role": "worker", "extraMounts": mounts})
	}
	text, err := yaml.Marshal(map[string]any{
		"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4",
		"networking": map[string]any{"serviceSubnet": servicesRange, "kubeProxyMode": "iptables"},
		"containerdConfigPatches": []string{fmt.Sprintf(
			"[plugins.\"io.containerd.cri.v1.images\".registry]\n  config_path = %q\n", hostsDir)},
		"nodes": all,
	})
	return string(text), err
}

// hosts leads the node's containerd to the cluster's registry.
func hosts() string {
	url := "https://" + registryAddress + ":5000"
	return fmt.Sprintf("server = %[1]q\n\n[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\", \"push\"]\n  ca = %[2]q\n",
		url, path.Join(pkiDir, "ca.crt"))
}

// hostsFile is where containerd looks for them.
func hostsFile(dir state.Dir) string { return dir.Config("hosts/" + node.RegistryHost + "/hosts.toml") }

func createArgs(dir state.Dir) []string {
	return []string{
		"create", "cluster", "--name", Name, "--config", dir.Config("kind.yaml"), "--kubeconfig", dir.Kubeconfig(), "--wait", "5m",
	}
}

func deleteArgs(dir state.Dir) []string {
	return []string{"delete", "cluster", "--name", Name, "--kubeconfig", dir.Kubeconfig()}
}

func loadArgs(archive string) []string {
	return []string{"load", "image-archive", archive, "--name", Name}
}

// inNode is a command of containerd in the node.
func inNode(args ...string) []string {
	return append([]string{"exec", container, "ctr", "--namespace", "k8s.io", "images"}, args...)
}
