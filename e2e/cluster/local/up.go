package local

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Up starts the cluster, or its missing parts. It removes a cluster that it fails to start; one that ran before is left
// running.
func (c *Cluster) Up(ctx context.Context) error {
	if c.options.Kubeconfig != "" {
		return c.CheckOwn(ctx)
	}
	if err := c.Preflight(ctx); err != nil {
		return err
	}
	unlock, err := state.Lock(state.LockFile)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.checkAlone(); err != nil {
		return err
	}
	// Files of earlier builds: logs, and the unfinished output of killed ones.
	if err := errors.Join(os.RemoveAll(c.builder.Logs), c.options.Cache.Sweep()); err != nil {
		return err
	}
	images, err := c.prepare(ctx)
	if err != nil {
		return err
	}

	ran := c.Running() && c.sameVersions() && c.checkAlive(ctx) == nil
	if err := c.bringUp(ctx, ran, images); err != nil {
		if ran || c.options.KeepFailed {
			return err
		}
		c.progress.Explain(err)
		c.progress.Printf("\n")
		// The context may have ended, which must not prevent the cleanup.
		return errors.Join(ErrTakenDown, c.takeDown(context.WithoutCancel(ctx)))
	}
	return nil
}

// Programs builds and fetches the cluster's programs, which Up then finds in the cache. A user's own cluster needs
// none.
func (c *Cluster) Programs(ctx context.Context) error {
	if c.options.Kubeconfig != "" {
		return nil
	}
	_, err := c.prepare(ctx)
	return err
}

func (c *Cluster) needs() host.Needs {
	needs := host.Needs{Dirs: []string{string(c.options.Cache), string(c.options.Dir)}, Tools: []host.Tool{
		{Name: "Go", Works: []string{"go", "version"}},
		{Name: "Python 3.11 or newer", Works: []string{"python3", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"}},
	}}
	needs.Tools = append(needs.Tools, c.workload.Tools()...)
	return needs
}

// ErrTakenDown means that the start failed for the printed reason, and that the cluster was removed.
var ErrTakenDown = errors.New("the start failed, see above")

// prepare installs packages and builds, which changes only packages and the cache.
func (c *Cluster) prepare(ctx context.Context) (images, error) {
	if err := c.InstallPackages(ctx); err != nil {
		return images{}, err
	}
	// The workload waits for downloads, components for the processor.
	var made images
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.build(groupCtx, c.components()...) })
	group.Go(func() error { return c.workload.Prepare(groupCtx, c) })
	if err := group.Wait(); err != nil {
		return images{}, err
	}
	var err error
	if made.base, err = c.baseImages(ctx); err == nil {
		made.workload, err = c.workload.Images(c)
	}
	if err == nil && c.options.EnvoyGateway {
		made.gateway, err = c.gatewayImages(ctx)
	}
	return made, err
}

// components returns the components of the local cluster, the longest build first.
func (c *Cluster) components() []components.Component {
	all := []components.Component{
		components.Kubernetes(), components.KEDAOperator(), components.KEDAAdapter(), components.CoreDNS(), components.Registry(),
		components.Etcd(), components.Pause(),
	}
	all = append(all, c.workload.Components()...)
	if c.options.Nodes > 1 {
		all = append(all, components.NetworkPolicies())
	}
	if c.options.EnvoyGateway {
		all = append(all, components.EnvoyGateway(), components.Envoy(), components.Helm())
	}
	return all
}

// images are the images of the cluster at its start.
type images struct {
	base     baseImages
	workload []image.Image
	gateway  gatewayImages
}

// all returns all images except the gateway's, which few clusters run: they are not part of the template.
func (i images) all() []image.Image {
	return append(i.base.all(), i.workload...)
}

func (c *Cluster) bringUp(ctx context.Context, ran bool, images images) error {
	if !ran && c.options.Dir.Exists() {
		if err := c.takeDown(ctx); err != nil {
			return err
		}
	}
	// Compilation uses the cores while the cluster starts.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.workload.Build(groupCtx, c) })
	group.Go(func() error { return c.bringUpKubernetes(groupCtx, ran, images) })
	if err := group.Wait(); err != nil {
		return err
	}
	return c.workload.Install(ctx, c)
}

func (c *Cluster) bringUpKubernetes(ctx context.Context, ran bool, images images) error {
	if !ran {
		if err := c.startNodes(ctx); err != nil {
			return err
		}
	}
	// Images are loaded while the control plane starts.
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startContainerds(groupCtx, ran, images) })
	group.Go(func() error { return c.startControlPlane(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.startKubelet(ctx, c.nodes[0]); err != nil {
		return err
	}
	if err := c.startPolicies(ctx, c.nodes[0]); err != nil {
		return err
	}
	if err := c.linkTools(); err != nil {
		return err
	}
	if err := c.seedRegistry(ctx, images.workload); err != nil {
		return err
	}
	group, groupCtx = errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := c.installAddons(groupCtx, images.base); err != nil {
			return err
		}
		return c.joinFurther(groupCtx)
	})
	if c.options.EnvoyGateway {
		group.Go(func() error { return c.installGateway(groupCtx, images.gateway) })
	}
	return group.Wait()
}
