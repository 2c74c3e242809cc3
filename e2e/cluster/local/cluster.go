package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/image"
	"github.com/rouse-run/rouse/e2e/cluster/kubectl"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Cluster is the local cluster of one state directory.
type Cluster struct {
	options  Options
	progress *progress.Progress
	builder  component.Builder
	store    image.Store
	process  *process.Client // of the first node
	nodes    []machine
	built    map[string]component.Built
}

// machine is a node with what starts its programs.
type machine struct {
	node.Node

	process *process.Client
}

func machines(dir state.Dir, count int) []machine {
	var all []machine
	for _, one := range node.All(dir, count) {
		all = append(all, machine{Node: one, process: process.NewClient(one.Dir)})
	}
	return all
}

func (m machine) containerd() image.Containerd {
	return image.Containerd{Socket: m.Dir.ContainerdSocket(), Log: m.Dir.Log("images")}
}

// label tells the steps of one node from those of another.
func (m machine) label(step string) string {
	if m.Alone {
		return step
	}
	return step + " of " + m.Name
}

// New prepares a cluster without touching anything.
func New(options Options, progress *progress.Progress) *Cluster {
	return &Cluster{
		options: options, progress: progress,
		builder: component.Builder{Repository: options.Repository, Cache: options.Cache, Logs: options.Cache.Path("logs")},
		store:   image.Store{Cache: options.Cache},
		process: process.NewClient(options.Dir),
		nodes:   machines(options.Dir, options.Nodes),
		built:   map[string]component.Built{},
	}
}

// modulePath is what the repository's go.mod begins with.
const modulePath = "module github.com/rouse-run/rouse"

// ErrNoRepository means that the command was started outside a checkout.
var ErrNoRepository = errors.New("not inside a checkout of the repository")

// FindRepository walks up from the working directory to the root of the checkout.
func FindRepository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if line, _, _ := strings.Cut(string(content), "\n"); err == nil && line == modulePath {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoRepository
		}
		dir = parent
	}
}

// Assets builds the programs that integration tests start and returns their directory.
func (c *Cluster) Assets(ctx context.Context) (string, error) {
	if err := c.build(ctx, component.Assets()...); err != nil {
		return "", err
	}
	return component.LinkAssets(ctx, c.builder)
}

// build builds components one after the other: each keeps all cores busy by itself.
func (c *Cluster) build(ctx context.Context, components ...component.Component) error {
	for _, wanted := range components {
		name := "build " + wanted.Name
		if c.builderOf(wanted).Cached(wanted) {
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

func (c *Cluster) buildOne(ctx context.Context, name string, wanted component.Component) (built component.Built, err error) {
	builder := c.builderOf(wanted)
	if builder.Cached(wanted) {
		return builder.Build(ctx, wanted)
	}
	err = c.progress.Step(ctx, name, func(ctx context.Context, detail progress.Detail) error {
		built, err = builder.Build(ctx, wanted)
		if err == nil {
			detail("%s", built.Dir)
		}
		return err
	})
	return built, err
}

// builderOf has NATS be of the version that the installed Rouse is of; all that Rouse stands on is the repository's.
func (c *Cluster) builderOf(wanted component.Component) component.Builder {
	builder := c.builder
	if wanted.Name == component.NATS().Name && c.options.Checkout != "" {
		builder.Repository = c.options.Checkout
	}
	return builder
}

func (c *Cluster) kubectl() kubectl.Client {
	return kubectl.Client{
		Binary: c.built[component.Kubernetes().Name].Path("kubectl"), Kubeconfig: c.options.Dir.Kubeconfig(), Log: c.options.Dir.Log("kubectl"),
	}
}

// load gives every node the images that it does not have.
func (c *Cluster) load(ctx context.Context, images ...image.Image) error {
	for _, one := range c.nodes {
		if _, err := one.containerd().Load(ctx, images...); err != nil {
			return err
		}
	}
	return nil
}

// status asks the running cluster with the kubectl that it was made with.
func (c *Cluster) status() kubectl.Client {
	return kubectl.Client{Binary: c.options.Dir.Path("tools", "kubectl"), Kubeconfig: c.options.Dir.Kubeconfig()}
}

// Running says whether the namespaces of the cluster exist.
func (c *Cluster) Running() bool { return process.PID(c.options.Dir) != 0 }

func (c *Cluster) logs(name string) string { return c.options.Dir.Log(name) }

func (c *Cluster) describe() string {
	return fmt.Sprintf("state %s, cache %s", c.options.Dir, c.options.Cache)
}
