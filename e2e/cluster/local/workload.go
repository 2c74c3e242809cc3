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

// Workload is the software that a cluster runs. The methods are called in this order.
type Workload interface {
	// Tools lists the programs of this machine that the build needs.
	Tools() []host.Tool
	// Components lists the additional programs that the cluster builds for it.
	Components() []components.Component
	// Prepare makes parts that seldom change and waits for downloads, while the components are compiled.
	Prepare(ctx context.Context, cluster *Cluster) error
	// Images returns the images that seldom change, which the cluster caches for its next start. Images with a registry
	// are also added to the cluster's.
	Images(cluster *Cluster) ([]image.Image, error)
	// Build makes the parts that change with each edit, while Kubernetes starts.
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

// Step reports a step of the start, like the cluster's own.
func (c *Cluster) Step(ctx context.Context, name string, run func(context.Context, command.Detail) error) error {
	return c.progress.Step(ctx, name, run)
}

// Builder returns the builder that uses the cluster's cache.
func (c *Cluster) Builder() components.Builder { return c.builder }

// Store returns the cache of layers.
func (c *Cluster) Store() image.Store { return c.store }

// BinaryImage makes an image of a built component, by its name. It has to be one static binary.
func (c *Cluster) BinaryImage(name string) (image.Image, error) {
	built := c.built[name]
	layer, err := c.store.Layer(built.Name, built.Key, func(file string) error {
		return pack.Files(file, []pack.File{{Path: "/" + built.Name, Source: built.Path(built.Name)}})
	})
	return image.Image{
		Name: built.Name, Layers: []image.Layer{layer}, Config: v1.Config{Entrypoint: []string{"/" + built.Name}},
	}, err
}

// Kubectl returns the kubectl of the running cluster.
func (c *Cluster) Kubectl() command.Kubectl {
	return command.Kubectl{
		Binary: c.built[components.Kubernetes().Name].Path("kubectl"), Kubeconfig: c.options.Dir.Kubeconfig(), Log: c.options.Dir.Log("kubectl"),
	}
}

// Load loads missing images on every node.
func (c *Cluster) Load(ctx context.Context, images ...image.Image) error {
	for _, one := range c.nodes {
		if _, err := one.containerd().Load(ctx, images...); err != nil {
			return err
		}
	}
	return nil
}

// Authorities returns the authorities that pods have to trust, in PEM: the cluster's registry's, and those of the host,
// which may be behind a TLS proxy.
func (c *Cluster) Authorities() (string, error) {
	authority, err := os.ReadFile(c.options.Dir.PKI("ca.crt"))
	return string(authority) + host.CABundle(), err
}

// Links returns the range of the nodes' addresses; it is empty for a single node.
func (c *Cluster) Links() string {
	if len(c.nodes) == 1 {
		return ""
	}
	return host.LinkRange
}

const (
	// RolloutLimit is the timeout for a workload to become ready.
	RolloutLimit = 6 * time.Minute
	installLimit = 8 * time.Minute
)

// InstallChart installs or upgrades a release of a chart and waits until it is ready.
func (c *Cluster) InstallChart(ctx context.Context, namespace, release, chart, values string) error {
	// A killed helm leaves its operation pending, and later ones refuse to start. The lock guarantees that no helm
	// runs.
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
