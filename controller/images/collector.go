package images

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/registry"
)

// Registry finds the internal one.
type Registry interface {
	Default(ctx context.Context) (*registry.Registry, error)
}

// Builds lets nobody build for a while.
type Builds interface {
	Hold(ctx context.Context) (release func(), err error)
}

// store is what the collector needs of a registry.
type store interface {
	Repositories(ctx context.Context) ([]string, error)
	Tags(ctx context.Context, repository string) ([]string, error)
	Digest(ctx context.Context, repository, tag string) (digest string, found bool, err error)
	Delete(ctx context.Context, repository, digest string) error
}

// sweeper frees the space of what was deleted.
type sweeper interface {
	Sweep(ctx context.Context) error
}

// holdTimeout is how long a sweep waits for running builds before it lets new ones begin and tries again later.
const holdTimeout = 20 * time.Minute

// Deps are what a Collector works with.
type Deps struct {
	// Live reads past the cache, and starts Jobs.
	Live       client.Client
	Namespace  string // of the release
	Registry   Registry
	Builds     Builds
	Registerer prometheus.Registerer
	Log        logr.Logger
	// RuntimeImages are the images of the runtimes.
	RuntimeImages []string
}

// Collector deletes what nobody uses. It runs on the leader.
type Collector struct {
	deps    Deps
	options Options
	sweeper sweeper
	metrics *metrics
	// runtimes are the tags of the runtimes' images.
	runtimes map[string]bool
	unused   graveyard
	// owed is true while something was deleted whose space is not free yet.
	owed bool
}

// New makes a Collector.
func New(deps Deps, options Options) *Collector {
	c := &Collector{
		deps: deps, options: options, metrics: newMetrics(deps.Registerer), runtimes: map[string]bool{}, unused: graveyard{},
		sweeper: &jobs{live: deps.Live, namespace: deps.Namespace, name: options.RegistryDeployment},
	}
	for _, image := range deps.RuntimeImages {
		c.runtimes[tagOf(image)] = true
	}
	return c
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start collects until ctx ends. What fails is tried again the next time.
func (c *Collector) Start(ctx context.Context) error {
	ticker := time.NewTicker(c.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.collect(ctx); err != nil && ctx.Err() == nil {
			c.metrics.failures.Inc()
			c.deps.Log.Error(err, "unused images are not collected")
		}
	}
}

func (c *Collector) collect(ctx context.Context) error {
	where, err := c.deps.Registry.Default(ctx)
	if err != nil || where == nil {
		return err
	}
	if err := c.delete(ctx, where.Images()); err != nil {
		return err
	}
	if !c.owed {
		return nil
	}
	return c.sweep(ctx)
}

// delete takes the tags and manifests of unused images. Who uses what is read after what there is: an image that
// is used between the two is seen.
func (c *Collector) delete(ctx context.Context, images store) error {
	held, err := take(ctx, images)
	if err != nil {
		return err
	}
	used, err := usage(ctx, c.deps.Live)
	if err != nil {
		return err
	}
	for _, found := range c.unused.expired(held.unused(used, c.runtimes), time.Now(), c.options.Grace) {
		if err := images.Delete(ctx, found.repository, found.digest); err != nil {
			return fmt.Errorf("delete an unused image of %s: %w", found.repository, err)
		}
		c.deps.Log.Info("deleted an unused image", "repository", found.repository, "digest", found.digest)
		c.metrics.deleted.Inc()
		delete(c.unused, found)
		c.owed = true
	}
	return nil
}

// take lists what a registry holds.
func take(ctx context.Context, images store) (inventory, error) {
	repositories, err := images.Repositories(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the repositories: %w", err)
	}
	held := inventory{}
	for _, repository := range repositories {
		tags, err := images.Tags(ctx, repository)
		if err != nil {
			return nil, fmt.Errorf("list the tags of %s: %w", repository, err)
		}
		for _, tag := range tags {
			digest, found, err := images.Digest(ctx, repository, tag)
			if err != nil {
				return nil, fmt.Errorf("look at %s:%s: %w", repository, tag, err)
			}
			if found {
				at := image{repository, digest}
				held[at] = append(held[at], tag)
			}
		}
	}
	return held, nil
}

func (c *Collector) sweep(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, holdTimeout)
	release, err := c.deps.Builds.Hold(limited)
	cancel()
	if err != nil {
		return fmt.Errorf("hold builds for a sweep of the registry: %w", err)
	}
	defer release()
	started := time.Now()
	if err := c.sweeper.Sweep(ctx); err != nil {
		return err
	}
	c.owed = false
	c.deps.Log.Info("swept the registry", "seconds", time.Since(started).Seconds())
	return nil
}
