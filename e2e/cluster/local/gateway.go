package local

import (
	"context"

	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/envoygateway"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
)

func (c *Cluster) gatewayImages(ctx context.Context) (images envoygateway.Images, err error) {
	err = c.progress.Step(ctx, "Envoy Gateway's images", func(ctx context.Context, _ progress.Detail) error {
		glibc, err := c.source().Glibc(ctx)
		if err != nil {
			return err
		}
		images, err = envoygateway.MakeImages(c.store, glibc, c.built[component.EnvoyGateway().Name], c.built[component.Envoy().Name])
		return err
	})
	return images, err
}

// installGateway brings Gateway API into the cluster, and a Gateway that takes requests.
func (c *Cluster) installGateway(ctx context.Context, images envoygateway.Images) error {
	err := c.progress.Step(ctx, "load Envoy Gateway's images", func(ctx context.Context, _ progress.Detail) error {
		return c.load(ctx, images.All()...)
	})
	if err != nil {
		return err
	}
	err = c.progress.Step(ctx, "Envoy Gateway", func(ctx context.Context, detail progress.Detail) error {
		detail("release %s in namespace %s", envoygateway.Release, envoygateway.Namespace)
		return c.installEnvoyGateway(ctx, images)
	})
	if err != nil {
		return err
	}
	return c.progress.Step(ctx, "Gateway", func(ctx context.Context, detail progress.Detail) error {
		detail("%s/%s takes requests", envoygateway.GatewayNamespace, envoygateway.GatewayName)
		manifests, err := envoygateway.Manifests(images)
		if err != nil {
			return err
		}
		if err := c.kubectl().Apply(ctx, manifests); err != nil {
			return err
		}
		_, err = c.kubectl().Run(ctx, "--namespace", envoygateway.GatewayNamespace, "wait", "--for=condition=Programmed",
			"gateway/"+envoygateway.GatewayName, "--timeout="+rolloutLimit.String())
		if err != nil {
			return c.kubectl().Explain(ctx, envoygateway.Namespace, err)
		}
		return nil
	})
}

func (c *Cluster) installEnvoyGateway(ctx context.Context, images envoygateway.Images) error {
	built := c.built[component.EnvoyGateway().Name]
	for _, dir := range envoygateway.CRDs(built) {
		if _, err := c.kubectl().Run(ctx, "apply", "--server-side", "--force-conflicts", "-f", dir); err != nil {
			return err
		}
	}
	chart, err := envoygateway.WriteChart(c.options.Dir, built, images)
	if err != nil {
		return err
	}
	values, err := envoygateway.Values()
	if err != nil {
		return err
	}
	if _, err := c.kubectl().Run(ctx, release.DeletePending(envoygateway.Namespace, envoygateway.Release)...); err != nil {
		return err
	}
	if err := c.helm().Upgrade(ctx, envoygateway.Namespace, envoygateway.Release, chart, values); err != nil {
		return c.kubectl().Explain(ctx, envoygateway.Namespace, err)
	}
	return nil
}
