package local

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/envoygateway"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Up brings the cluster up, or what is missing of it. A cluster that it could not bring up it takes down again; one
// that ran before is left running.
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
		// The context may be over, which must not keep the cluster from being taken down.
		return errors.Join(ErrTakenDown, c.takeDown(context.WithoutCancel(ctx)))
	}
	return nil
}

// Programs builds and fetches what the cluster runs, which Up then finds in the cache. A cluster of the user's own runs
// nothing of it.
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
	if !c.options.Bare {
		// The runtimes' layers are made of their packages.
		needs.Tools = append(needs.Tools,
			host.Tool{Name: "Node.js 20 or newer", Works: []string{"node", "--eval", "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)"}},
			host.Tool{Name: "npm", Works: []string{"npm", "--version"}})
	}
	return needs
}

// ErrTakenDown means that the start failed for the reason printed, and that nothing of it is left.
var ErrTakenDown = errors.New("the start failed, see above")

// prepare installs packages and builds, which changes nothing but packages and the cache.
func (c *Cluster) prepare(ctx context.Context) (images, error) {
	err := c.progress.Step(ctx, "packages", func(ctx context.Context, detail progress.Detail) error {
		return c.install(ctx, detail, host.Packages())
	})
	if err != nil {
		return images{}, err
	}
	// Runtimes wait for downloads, components for the processor.
	var made images
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.build(groupCtx, c.components()...) })
	group.Go(func() (err error) {
		if !c.options.Bare {
			made.runtimes, err = c.runtimeImages(groupCtx)
		}
		return err
	})
	group.Go(func() (err error) {
		if !c.options.Bare {
			made.sources, err = c.sourceServer(groupCtx)
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return images{}, err
	}
	if made.base, err = c.baseImages(ctx); err == nil && !c.options.Bare {
		made.nats, err = c.natsImage()
	}
	if err == nil && c.options.EnvoyGateway {
		made.gateway, err = c.gatewayImages(ctx)
	}
	return made, err
}

// components are those of the local cluster, the longest build first.
func (c *Cluster) components() []component.Component {
	all := []component.Component{
		component.Kubernetes(), component.KEDAOperator(), component.KEDAAdapter(), component.CoreDNS(), component.Registry(),
		component.Etcd(), component.Pause(),
	}
	if !c.options.Bare {
		all = append(all, component.NATS(), component.Helm())
	}
	if c.options.Nodes > 1 {
		all = append(all, component.NetworkPolicies())
	}
	if c.options.EnvoyGateway {
		all = append(all, component.EnvoyGateway(), component.Envoy(), component.Helm())
	}
	return all
}

// images are all that the cluster runs. Rouse's own changes with each edit of the checkout, the others seldom.
type images struct {
	base     baseImages
	nats     image.Image
	sources  image.Image // what the e2e tests fetch from
	runtimes map[string]image.Image
	gateway  envoygateway.Images
}

// all but those of the gateway, which few clusters run: the template that the next one starts from has none of them.
func (i images) all() []image.Image {
	all := i.base.all()
	if i.nats.Name != "" {
		all = append(all, i.nats, i.sources)
	}
	return slices.AppendSeq(all, maps.Values(i.runtimes))
}

func (c *Cluster) bringUp(ctx context.Context, ran bool, images images) error {
	if !ran && c.options.Dir.Exists() {
		if err := c.takeDown(ctx); err != nil {
			return err
		}
	}
	if c.options.Bare {
		return c.bringUpKubernetes(ctx, ran, images)
	}
	// Compiling keeps the cores busy while the cluster waits for itself.
	var rouse image.Image
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		rouse, err = c.rouseImage(groupCtx)
		return err
	})
	group.Go(func() error { return c.bringUpKubernetes(groupCtx, ran, images) })
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.kubectl().Apply(ctx, release.Fixtures(images.sources.Reference())); err != nil {
		return err
	}
	// The authority of the cluster's registry, and those of the host: it may be behind a TLS proxy.
	authority, err := os.ReadFile(c.options.Dir.PKI("ca.crt"))
	if err != nil {
		return err
	}
	return c.installRouse(ctx, release.Images{
		Rouse: rouse, NATS: images.nats, Registry: images.base.registry, Runtimes: images.runtimes,
		CABundle: string(authority) + host.CABundle(), Nodes: c.links(),
	})
}

// links are the addresses of the nodes, where there are several.
func (c *Cluster) links() string {
	if len(c.nodes) == 1 {
		return ""
	}
	return network.Links
}

func (c *Cluster) bringUpKubernetes(ctx context.Context, ran bool, images images) error {
	if !ran {
		if err := c.startNodes(ctx); err != nil {
			return err
		}
	}
	// Images go in while the control plane starts.
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
	if err := c.seedRegistry(ctx, images.runtimes); err != nil {
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
