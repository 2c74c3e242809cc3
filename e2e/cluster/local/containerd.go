package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// startContainerds starts containerd on all nodes, on the first node first: it saves the template that provides the
// others' images.
func (c *Cluster) startContainerds(ctx context.Context, ran bool, images images) error {
	if err := c.startContainerd(ctx, c.nodes[0], ran, images); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range c.nodes[1:] {
		group.Go(func() error { return c.startContainerd(ctx, one, ran, images) })
	}
	return group.Wait()
}

// startContainerd starts a node's containerd with its images: from the template of this set of images if there is one;
// otherwise it loads them and saves a template.
func (c *Cluster) startContainerd(ctx context.Context, on machine, ran bool, images images) error {
	program, err := writeContainerd(on.Node, images.base.pause.Reference(), c.options.Registries)
	if err != nil {
		return err
	}
	template := image.Template{Cache: c.options.Cache, Root: on.ContainerdRoot(), Log: on.Dir.Log("images")}
	key, err := template.Key(ctx, images.all())
	if err != nil {
		return err
	}
	restored := image.Nothing
	if !ran {
		err := c.progress.Step(ctx, on.label("image template"), func(ctx context.Context, detail command.Detail) error {
			restored, err = template.Restore(ctx, key)
			detail("%s", restored)
			return err
		})
		if err != nil {
			return err
		}
	}
	err = c.progress.Step(ctx, on.label("containerd"), func(ctx context.Context, _ command.Detail) error {
		return c.startUntil(ctx, on, program, 2*time.Minute, on.containerd().Ready)
	})
	if err != nil {
		return err
	}
	err = c.progress.Step(ctx, on.label("images"), func(ctx context.Context, detail command.Detail) error {
		loaded, err := on.containerd().Load(ctx, images.all()...)
		detail("%d of %d were new", loaded, len(images.all()))
		return err
	})
	if err != nil || ran || restored == image.Exact {
		return err
	}
	if err := on.containerd().Keep(ctx, images.all()...); err != nil {
		return err
	}
	return c.saveTemplate(ctx, on, template, key, program)
}

// saveTemplate stops containerd for the copy, so that its databases are consistent. No container runs yet.
func (c *Cluster) saveTemplate(ctx context.Context, on machine, template image.Template, key string, program host.Program) error {
	return c.progress.Step(ctx, "keep image template", func(ctx context.Context, _ command.Detail) error {
		if err := on.process.Stop(ctx, program.Name); err != nil {
			return err
		}
		if err := template.Save(ctx, key); err != nil {
			return err
		}
		return c.startUntil(ctx, on, program, 2*time.Minute, on.containerd().Ready)
	})
}

// RegistryHost is the host of the cluster's own registry, which is used instead of public ones.
const RegistryHost = "registry.kube-system.svc.cluster.local:5000"

// ContainerdRoot returns the directory of containerd's images.
func (n Node) ContainerdRoot() string { return n.Dir.Path("containerd", "root") }

// writeContainerd writes containerd's configuration and returns the program.
func writeContainerd(n Node, pauseImage string, registries map[string]string) (host.Program, error) {
	dir := n.Dir
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return host.Program{}, err
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return host.Program{}, err
	}
	files := map[string]string{
		dir.Config("containerd.toml"):                 containerdConfig(n, pauseImage, runc, pluginDir()),
		hostsFile(dir, RegistryHost):                  registryHosts("https://"+host.RegistryAddress+":5000", n.Cluster.PKI("ca.crt")),
		hostsFile(dir, host.RegistryAddress+":5000"):  registryHosts("https://"+host.RegistryAddress+":5000", n.Cluster.PKI("ca.crt")),
		dir.Path("cni", "net.d", "10-rouse.conflist"): cniConfig(n),
	}
	for name, url := range registries {
		files[hostsFile(dir, name)] = registryHosts(url, "")
	}
	for path, content := range files {
		if err := state.Write(path, content); err != nil {
			return host.Program{}, err
		}
	}
	return host.Program{
		Name: "containerd", Path: containerd, Log: dir.Log("containerd"),
		Args: []string{"--config", dir.Config("containerd.toml"), "--log-level", "warn"},
	}, nil
}

// pluginDir returns the directory of the CNI plugins: Debian's, or the common one.
func pluginDir() string {
	const debian, common = "/usr/lib/cni", "/opt/cni/bin"
	if _, err := os.Stat(filepath.Join(debian, "ptp")); err == nil {
		return debian
	}
	return common
}

// containerdConfig sets restrict_oom_score_adj because runc fails to lower the score without CAP_SYS_RESOURCE, and
// exits.
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

// registryHosts returns the configuration by which containerd, which does not use the cluster's DNS, finds a registry.
func registryHosts(url, ca string) string {
	text := fmt.Sprintf("server = %[1]q\n\n[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\", \"push\"]\n", url)
	if ca != "" {
		text += fmt.Sprintf("  ca = %q\n", ca)
	}
	return text
}

// cniConfig connects each pod by its own veth pair to the node, which routes. There is no bridge, so packets between
// pods always pass the node's packet filter, and Services work without br_netfilter. With several nodes, nodes preserve
// the pods' source addresses, by which NetworkPolicies identify them; the host masquerades them towards other networks.
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
