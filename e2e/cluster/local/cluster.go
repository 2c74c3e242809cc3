package local

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Cluster is the local cluster of one state directory.
type Cluster struct {
	options  Options
	workload Workload
	progress *command.Progress
	builder  components.Builder
	store    image.Store
	process  *host.InitClient // of the first node
	nodes    []machine
	built    map[string]components.Built
}

// machine is a node with the client that starts its programs.
type machine struct {
	Node

	process *host.InitClient
}

func machines(dir state.Dir, count int) []machine {
	var all []machine
	for _, one := range nodesOf(dir, count) {
		all = append(all, machine{Node: one, process: host.NewInitClient(one.Dir)})
	}
	return all
}

func (m machine) containerd() image.Containerd {
	return image.Containerd{Socket: m.Dir.ContainerdSocket(), Log: m.Dir.Log("images")}
}

// label distinguishes the steps of several nodes.
func (m machine) label(step string) string {
	if m.Alone {
		return step
	}
	return step + " of " + m.Name
}

// New returns a cluster without changing the machine.
func New(options Options, workload Workload, progress *command.Progress) *Cluster {
	return &Cluster{
		options: options, workload: workload, progress: progress,
		builder: components.Builder{Repository: options.Repository, Cache: options.Cache, Logs: options.Cache.Path("logs")},
		store:   image.Store{Cache: options.Cache},
		process: host.NewInitClient(options.Dir),
		nodes:   machines(options.Dir, options.Nodes),
		built:   map[string]components.Built{},
	}
}

// Assets builds the programs that integration tests start and returns their directory.
func (c *Cluster) Assets(ctx context.Context) (string, error) {
	if err := c.build(ctx, components.Assets()...); err != nil {
		return "", err
	}
	return components.LinkAssets(ctx, c.builder)
}

// build builds components one after the other: each build uses all cores.
func (c *Cluster) build(ctx context.Context, components ...components.Component) error {
	for _, wanted := range components {
		name := "build " + wanted.Name
		if c.builder.Cached(wanted) {
			name = "cached " + wanted.Name
		} else {
			c.progress.Printf("     %s takes about %s on two cores, once\n", name, wanted.About)
		}
		built, err := c.buildOne(ctx, name, wanted)
		if err != nil {
			return err
		}
		c.built[wanted.Name] = built
	}
	return nil
}

func (c *Cluster) buildOne(ctx context.Context, name string, wanted components.Component) (built components.Built, err error) {
	if c.builder.Cached(wanted) {
		return c.builder.Build(ctx, wanted)
	}
	err = c.progress.Step(ctx, name, func(ctx context.Context, detail command.Detail) error {
		built, err = c.builder.Build(ctx, wanted)
		if err == nil {
			detail("%s", built.Dir)
		}
		return err
	})
	return built, err
}

// status returns the kubectl of the running cluster.
func (c *Cluster) status() command.Kubectl {
	return command.Kubectl{Binary: c.options.Dir.Path("tools", "kubectl"), Kubeconfig: c.options.Dir.Kubeconfig()}
}

// Running reports whether the namespaces of the cluster exist.
func (c *Cluster) Running() bool { return host.InitPID(c.options.Dir) != 0 }

func (c *Cluster) logs(name string) string { return c.options.Dir.Log(name) }

func (c *Cluster) describe() string {
	return fmt.Sprintf("state %s, cache %s", c.options.Dir, c.options.Cache)
}

// Preflight checks whether this machine can run the cluster, without changing it. A user's own cluster has no
// requirements on the machine.
func (c *Cluster) Preflight(ctx context.Context) error {
	if c.options.Kubeconfig != "" {
		return nil
	}
	return c.progress.Step(ctx, "check the machine", func(ctx context.Context, detail command.Detail) error {
		detail("%s", c.describe())
		return host.Preflight(ctx, c.needs())
	})
}

// Packages installs the Debian packages that the tests need in addition to the cluster's.
func (c *Cluster) Packages(ctx context.Context) error {
	if len(host.MissingPackages(ctx, host.TestPackages())) == 0 {
		return nil
	}
	return c.progress.Step(ctx, "packages for the tests", func(ctx context.Context, detail command.Detail) error {
		return c.install(ctx, detail, host.TestPackages())
	})
}

// InstallPackages installs the Debian packages for building the cluster and its images.
func (c *Cluster) InstallPackages(ctx context.Context) error {
	return c.progress.Step(ctx, "packages", func(ctx context.Context, detail command.Detail) error {
		return c.install(ctx, detail, host.Packages())
	})
}

func (c *Cluster) install(ctx context.Context, detail command.Detail, packages []host.Package) error {
	detail("%d to install", len(host.MissingPackages(ctx, packages)))
	return host.InstallPackages(ctx, c.options.Cache.Path("logs", "packages.log"), packages)
}
