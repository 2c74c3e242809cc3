package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// The names by which images are pulled from the registries in the cluster.
const (
	// RegistryHost is the cluster's own registry, in place of public ones.
	RegistryHost = "registry.kube-system.svc.cluster.local:5000"
	// BuildsHost is the chart's, with the images of Functions.
	BuildsHost = "rouse-registry.rouse-system.svc.cluster.local:5000"
)

// ContainerdRoot is where containerd keeps images.
func (n Node) ContainerdRoot() string { return n.Dir.Path("containerd", "root") }

// WriteContainerd writes containerd's configuration and returns how to start it.
func WriteContainerd(n Node, pauseImage string) (process.Program, error) {
	dir := n.Dir
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return process.Program{}, err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return process.Program{}, err
	}
	files := map[string]string{
		dir.Config("containerd.toml"):                 containerdConfig(n, pauseImage, runc, pluginDir()),
		hostsFile(dir, RegistryHost):                  registryHosts("https://"+network.Registry+":5000", n.Cluster.PKI("ca.crt")),
		hostsFile(dir, network.Registry+":5000"):      registryHosts("https://"+network.Registry+":5000", n.Cluster.PKI("ca.crt")),
		hostsFile(dir, BuildsHost):                    registryHosts("http://"+network.Builds+":5000", ""),
		dir.Path("cni", "net.d", "10-rouse.conflist"): cniConfig(n),
	}
	for path, content := range files {
		if err := state.Write(path, content); err != nil {
			return process.Program{}, err
		}
	}
	return process.Program{
		Name: "containerd", Path: containerd, Log: dir.Log("containerd"),
		Args: []string{"--config", dir.Config("containerd.toml"), "--log-level", "warn"},
	}, nil
}

// pluginDir is where Debian puts the CNI plugins, or where others do.
func pluginDir() string {
	const debian, common = "/usr/lib/cni", "/opt/cni/bin"
	if _, err := os.Stat(filepath.Join(debian, "ptp")); err == nil {
		return debian
	}
	return common
}

// containerdConfig: restrict_oom_score_adj, since without CAP_SYS_RESOURCE runc fails to lower it and dies.
func containerdConfig(n Node, pauseImage, runc, plugins string) string {
	dir := n.Dir
	return fmt.Sprintf(`version = 2
root = %[1]q
state = %[2]q
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[grpc]
  address = %[3]q

[plugins."io.containerd.internal.v1.opt"]
  path = %[4]q

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[5]q
  restrict_oom_score_adj = true
  disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
  discard_unpacked_layers = false

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
  BinaryName = %[6]q

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = %[7]q
  conf_dir = %[8]q

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = %[9]q
`, n.ContainerdRoot(), dir.Path("containerd", "state"), dir.ContainerdSocket(), dir.Path("containerd", "opt"),
		pauseImage, runc, plugins, dir.Path("cni", "net.d"), dir.Config("hosts"))
}

func hostsFile(dir state.Dir, host string) string {
	return dir.Config(filepath.Join("hosts", host, "hosts.toml"))
}

// registryHosts lets containerd, which does not ask the cluster's DNS, find a registry.
func registryHosts(url, ca string) string {
	text := fmt.Sprintf("server = %[1]q\n\n[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\", \"push\"]\n", url)
	if ca != "" {
		text += fmt.Sprintf("  ca = %q\n", ca)
	}
	return text
}

// cniConfig connects each pod with a veth pair of its own to the node, which routes. There is no bridge, so packets
// between pods always pass the node's packet filter, and Services work without br_netfilter. Of several nodes each keeps the addresses of
// its pods in what these send, by which NetworkPolicies know them; the host hides them from the world.
func cniConfig(n Node) string {
	return fmt.Sprintf(`{
  "cniVersion": "0.4.0",
  "name": "rouse",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": %t,
      "ipam": {
        "type": "host-local",
        "dataDir": %q,
        "ranges": [[{"subnet": %q}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, n.Alone, n.Dir.Path("cni", "addresses"), n.Pods)
}
