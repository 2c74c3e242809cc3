package local

import (
	"context"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/addon"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
)

func (c *Cluster) source() release.Source {
	return release.Source{Repository: c.options.Checkout, Store: c.store, Logs: c.builder.Logs}
}

// rouseImage compiles the checkout.
func (c *Cluster) rouseImage(ctx context.Context) (made image.Image, err error) {
	err = c.progress.Step(ctx, "Rouse image", func(ctx context.Context, detail progress.Detail) error {
		made, err = c.source().Binaries(ctx)
		if err == nil {
			detail("%s", made.Reference())
		}
		return err
	})
	return made, err
}

func (c *Cluster) natsImage() (image.Image, error) {
	made, err := addon.Binary(c.store, c.built[component.NATS().Name])
	made.Name = "rouse-nats"
	return made, err
}

func (c *Cluster) sourceServer(ctx context.Context) (made image.Image, err error) {
	err = c.progress.Step(ctx, "source server of the tests", func(ctx context.Context, _ progress.Detail) error {
		made, err = c.source().SourceServer(ctx)
		return err
	})
	return made, err
}

func (c *Cluster) runtimeImages(ctx context.Context) (map[string]image.Image, error) {
	chosen, err := release.Choose(c.options.Runtimes)
	if err != nil {
		return nil, err
	}
	images := map[string]image.Image{}
	for _, runtime := range chosen {
		err := c.progress.Step(ctx, "runtime "+runtime.Name, func(ctx context.Context, detail progress.Detail) error {
			detail("%s", runtime.Really)
			made, err := c.source().Runtime(ctx, runtime)
			made.Registry = node.RegistryHost
			images[runtime.Name] = made
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return images, nil
}

// installRouse loads the images, brings NATS if it is to be more than one server, and installs the chart.
func (c *Cluster) installRouse(ctx context.Context, images release.Images) error {
	err := c.progress.Step(ctx, "load Rouse's image", func(ctx context.Context, _ progress.Detail) error {
		return c.load(ctx, images.Rouse)
	})
	if err != nil {
		return err
	}
	if c.options.NATSReplicas > 1 {
		if err := c.installNATS(ctx, images.NATS); err != nil {
			return err
		}
		images.NATSURL, images.StreamReplicas = release.NATSCluster(c.options.NATSReplicas), c.options.NATSReplicas
	}
	return c.progress.Step(ctx, "install the chart", func(ctx context.Context, detail progress.Detail) error {
		detail("release %s in namespace %s", release.Name, release.Namespace)
		values, err := images.Values()
		if err != nil {
			return err
		}
		if _, err := c.kubectl().Run(ctx, release.DeletePending(release.Namespace, release.Name)...); err != nil {
			return err
		}
		if err := c.helm().Install(ctx, c.options.Checkout, values); err != nil {
			return c.kubectl().Explain(ctx, release.Namespace, err)
		}
		return nil
	})
}

func (c *Cluster) helm() release.Helm {
	return release.Helm{
		Binary: c.built[component.Helm().Name].Path("helm"), Kubeconfig: c.options.Dir.Kubeconfig(),
		Home: c.options.Dir.Helm(), Log: c.logs("helm"),
	}
}

func (c *Cluster) installNATS(ctx context.Context, nats image.Image) error {
	return c.progress.Step(ctx, "NATS cluster", func(ctx context.Context, detail progress.Detail) error {
		detail("%s", strings.ReplaceAll(release.NATSCluster(c.options.NATSReplicas), "nats://", ""))
		manifests, err := addon.NATSCluster(nats, c.options.NATSReplicas)
		if err != nil {
			return err
		}
		if err := c.kubectl().Apply(ctx, manifests); err != nil {
			return err
		}
		return c.kubectl().RolledOut(ctx, "nats-system", "statefulset/nats", rolloutLimit)
	})
}
