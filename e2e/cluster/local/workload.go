package local

import (
	"context"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
	"github.com/rouse-run/rouse/tools/pack"
)

// Workload is what a cluster is brought up for. The methods are called in this order.
type Workload interface {
	// Tools lists the programs of this machine that it is built with.
	Tools() []host.Tool
	// Components lists the programs that the cluster builds for it beside its own.
	Components() []components.Component
	// Prepare makes what seldom changes and waits for downloads, while the components are compiled.
	Prepare(ctx context.Context, cluster *Cluster) error
	// Images returns the images that seldom change, which the cluster keeps for its next start. Those with a registry are put into the
	// cluster's as well.
	Images(cluster *Cluster) ([]image.Image, error)
	// Build makes what changes with each edit, while Kubernetes starts.
	Build(ctx context.Context, cluster *Cluster) error
	// Install installs the workload when Kubernetes runs, and waits until it is ready.
	Install(ctx context.Context, cluster *Cluster) error
}

// Nothing is the Workload of a bare cluster.
type Nothing struct{}

// Tools implements Workload.
func (Nothing) Tools() []host.Tool { return nil }

// Components implements Workload.
func (Nothing) Components() []components.Component { return nil }

// Prepare implements Workload.
func (Nothing) Prepare(context.Context, *Cluster) error { return nil }

// Images implements Workload.
func (Nothing) Images(*Cluster) ([]image.Image, error) { return nil, nil }

// Build implements Workload.
func (Nothing) Build(context.Context, *Cluster) error { return nil }

// Install implements Workload.
func (Nothing) Install(context.Context, *Cluster) error { return nil }

// Step reports a step of the start, as those of the cluster itself.
func (c *Cluster) Step(ctx context.Context, name string, run func(context.Context, command.Detail) error) error {
	return c.progress.Step(ctx, name, run)
}

// Builder builds components into the cluster's cache.
func (c *Cluster) Builder() components.Builder { return c.builder }

// Store keeps the layers of images.
func (c *Cluster) Store() image.Store { return c.store }

// BinaryImage makes an image of a component that was built, by its name. It has to be one static binary.
func (c *Cluster) BinaryImage(name string) (image.Image, error) {
	built := c.built[name]
	layer, err := c.store.Layer(built.Name, built.Key, func(file string) error {
		return pack.Files(file, []pack.File{{Path: "/" + built.Name, Source: built.Path(built.Name)}})
	})
	return image.Image{
		Name: built.Name, Layers: []image.Layer{layer}, Config: v1.Config{Entrypoint: []string{"/" + built.Name}},
	}, err
}

// Kubectl is the kubectl of the cluster that runs.
func (c *Cluster) Kubectl() command.Kubectl {
	return command.Kubectl{
		Binary: c.built[components.Kubernetes().Name].Path("kubectl"), Kubeconfig: c.options.Dir.Kubeconfig(), Log: c.options.Dir.Log("kubectl"),
	}
}

// Load gives every node the images that it does not have.
func (c *Cluster) Load(ctx context.Context, images ...image.Image) error {
	for _, one := range c.nodes {
		if _, err := one.containerd().Load(ctx, images...); err != nil {
			return err
		}
	}
	return nil
}

// Authorities returns those that pods have to trust, as PEM: the authority of the cluster's registry, and those of the host, which may
// be behind a TLS proxy.
func (c *Cluster) Authorities() (string, error) {
	authority, err := os.ReadFile(c.options.Dir.PKI("ca.crt"))
	return string(authority) + host.CABundle(), err
}

// Links is the range of the nodes' addresses; empty where there is one node.
func (c *Cluster) Links() string {
	if len(c.nodes) == 1 {
		return ""
	}
	return host.LinkRange
}

const (
	// RolloutLimit is how long a workload may take until it is ready.
	RolloutLimit = 6 * time.Minute
	installLimit = 8 * time.Minute
)

// InstallChart installs or upgrades a release of a chart and waits until it is ready.
func (c *Cluster) InstallChart(ctx context.Context, namespace, release, chart, values string) error {
	// A helm that was killed leaves its operation pending, and later ones refuse to start. The lock says that none runs.
	_, err := c.Kubectl().Run(ctx, "--namespace", namespace, "delete", "secrets", "--selector",
		"owner=helm,name="+release+",status in (pending-install,pending-upgrade,pending-rollback)")
	if err != nil {
		return err
	}
	home := c.options.Dir.Helm()
	file := c.options.Dir.Path("helm", "values-"+release+".yaml")
	if err := state.Write(file, values); err != nil {
		return err
	}
	install := command.Command{
		Name: c.built[components.Helm().Name].Path("helm"), Log: c.logs("helm"),
		Env: []string{
			"KUBECONFIG=" + c.options.Dir.Kubeconfig(), "HELM_CACHE_HOME=" + home + "/cache", "HELM_CONFIG_HOME=" + home + "/config",
			"HELM_DATA_HOME=" + home + "/data",
		},
		Args: []string{
			"upgrade", "--install", release, chart, "--namespace", namespace, "--create-namespace",
			"--values", file, "--wait", "--timeout", installLimit.String(),
		},
	}
	if _, err := install.Run(ctx); err != nil {
		return c.Kubectl().Explain(ctx, namespace, err)
	}
	return nil
}
