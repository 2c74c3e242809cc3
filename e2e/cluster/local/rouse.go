package local

import (
	"context"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/addon"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
)

// rouseImages makes the images of the checkout. They do not need the cluster.
func (c *Cluster) rouseImages(ctx context.Context) (images release.Images, err error) {
	source := release.Source{Repository: c.options.Repository, Store: c.store, Logs: c.builder.Logs}
	err = c.progress.Step(ctx, "Rouse image", func(ctx context.Context, detail progress.Detail) error {
		if images.Rouse, err = source.Binaries(ctx); err != nil {
			return err
		}
		detail("%s", images.Rouse.Reference())
		images.NATS, err = addon.Binary(c.store, c.built[component.NATS().Name])
		images.NATS.Name = "rouse-nats"
		return err
	})
	if err != nil {
		return images, err
	}
	chosen, err := release.Choose(c.options.Runtimes)
	if err != nil {
		return images, err
	}
	images.Runtimes = map[string]image.Image{}
	for _, runtime := range chosen {
		err := c.progress.Step(ctx, "runtime "+runtime.Name, func(ctx context.Context, detail progress.Detail) error {
			detail("%s", runtime.Really)
			built, err := source.Runtime(ctx, runtime)
			images.Runtimes[runtime.Name] = built
			return err
		})
		if err != nil {
			return images, err
		}
	}
	return images, nil
}

// installRouse loads the images, brings NATS if it is to be more than one server, and installs the chart.
func (c *Cluster) installRouse(ctx context.Context, images release.Images) error {
	err := c.progress.Step(ctx, "load Rouse images", func(ctx context.Context, detail progress.Detail) error {
		all := []image.Image{images.Rouse, images.NATS}
		for _, built := range images.Runtimes {
			all = append(all, built)
		}
		loaded, err := c.containerd().Load(ctx, all...)
		detail("%d of %d were new", loaded, len(all))
		return err
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
		helm := release.Helm{
			Binary: c.built[component.Helm().Name].Path("helm"), Kubeconfig: c.options.Dir.Kubeconfig(),
			Home: c.options.Dir.Helm(), Log: c.logs("helm"),
		}
		if err := helm.Install(ctx, c.options.Repository, values); err != nil {
			return c.kubectl().Explain(ctx, release.Namespace, err)
		}
		return nil
	})
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
