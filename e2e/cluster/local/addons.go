package local

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/addon"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/keda"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
)

// rolloutLimit is how long a workload may take until it is ready.
const rolloutLimit = 6 * time.Minute

// baseImages are those of the cluster itself.
type baseImages struct {
	pause, coredns, registry, kedaOperator, kedaAdapter image.Image
}

func (b baseImages) all() []image.Image {
	return []image.Image{b.pause, b.coredns, b.registry, b.kedaOperator, b.kedaAdapter}
}

func (c *Cluster) baseImages(ctx context.Context) (images baseImages, err error) {
	err = c.progress.Step(ctx, "cluster images", func(_ context.Context, detail progress.Detail) error {
		for built, target := range map[string]*image.Image{
			component.Pause().Name: &images.pause, component.CoreDNS().Name: &images.coredns, component.Registry().Name: &images.registry,
			component.KEDAOperator().Name: &images.kedaOperator, component.KEDAAdapter().Name: &images.kedaAdapter,
		} {
			made, err := addon.Binary(c.store, c.built[built])
			if err != nil {
				return err
			}
			*target = made
		}
		detail("%d assembled", len(images.all()))
		return nil
	})
	return images, err
}

// seedRegistry gives the cluster's registry the images that builds start from: in a container they can only be read from
// a registry.
func (c *Cluster) seedRegistry(ctx context.Context, runtimes map[string]image.Image) error {
	return c.progress.Step(ctx, "images in the registry", func(_ context.Context, detail progress.Detail) error {
		added, err := image.Storage(addon.RegistryData(c.options.Dir)).Put(slices.Collect(maps.Values(runtimes))...)
		detail("%d of %d were new", added, len(runtimes))
		return err
	})
}

func (c *Cluster) installAddons(ctx context.Context, images baseImages) error {
	err := c.progress.Step(ctx, "apply addons", func(ctx context.Context, detail progress.Detail) error {
		detail("CoreDNS, registry, volumes, KEDA")
		manifests, err := addon.Manifests(c.options.Dir, images.coredns, images.registry)
		if err != nil {
			return err
		}
		if err := c.kubectl().Apply(ctx, manifests); err != nil {
			return err
		}
		dir, err := keda.WriteKustomization(c.options.Dir, c.built[component.KEDAOperator().Name].Path("config"), images.kedaOperator, images.kedaAdapter)
		if err != nil {
			return err
		}
		return c.kubectl().ApplyKustomization(ctx, dir)
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, workload := range []struct{ step, namespace, name string }{
		{"CoreDNS", "kube-system", "deployment/coredns"},
		{"registry", "kube-system", "deployment/registry"},
		{"KEDA operator", "keda", "deployment/keda-operator"},
		{"KEDA metrics adapter", "keda", "deployment/keda-metrics-apiserver"},
	} {
		group.Go(func() error {
			return c.progress.Step(ctx, workload.step, func(ctx context.Context, detail progress.Detail) error {
				detail("%s is ready", workload.name)
				return c.kubectl().RolledOut(ctx, workload.namespace, workload.name, rolloutLimit)
			})
		})
	}
	group.Go(func() error {
		return c.progress.Step(ctx, "external metrics API", func(ctx context.Context, _ progress.Detail) error {
			_, err := c.kubectl().Run(ctx, "wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io",
				"--timeout="+rolloutLimit.String())
			return err
		})
	})
	return group.Wait()
}
