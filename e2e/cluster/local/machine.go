package local

import (
	"context"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
)

// Preflight looks whether this machine can run the cluster and changes nothing. A cluster of the user's own needs nothing
// of the machine.
func (c *Cluster) Preflight(ctx context.Context) error {
	if c.options.Kubeconfig != "" {
		return nil
	}
	return c.progress.Step(ctx, "check the machine", func(ctx context.Context, detail progress.Detail) error {
		detail("%s", c.describe())
		return host.Preflight(ctx, c.needs())
	})
}

// Packages installs the Debian packages that the tests need beside the cluster's.
func (c *Cluster) Packages(ctx context.Context) error {
	if len(host.Missing(ctx, host.TestPackages())) == 0 {
		return nil
	}
	return c.progress.Step(ctx, "packages for the tests", func(ctx context.Context, detail progress.Detail) error {
		return c.install(ctx, detail, host.TestPackages())
	})
}

func (c *Cluster) install(ctx context.Context, detail progress.Detail, packages []host.Package) error {
	detail("%d to install", len(host.Missing(ctx, packages)))
	return host.Install(ctx, c.options.Cache.Path("logs", "packages.log"), packages)
}
