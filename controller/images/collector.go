package images

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/controller/registryconfig"
)

// Registry finds the internal one.
type Registry interface {
	Default(ctx context.Context) (*registryconfig.Registry, error)
}

// Builds lets no Function build for a while.
type Builds interface {
	// Hold waits for running builds, no longer than the longest of them may take.
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
	// Sweep waits for the sweep that runs already, if one does.
	Sweep(ctx context.Context) error
	Running(ctx context.Context) (bool, error)
}

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

// Collector deletes unused images. It runs on the leader.
type Collector struct {
	deps    Deps
	options Options
	sweeper sweeper
	metrics *metrics
	unused  unusedSince
	// owed is true while something may have been deleted whose space is not free yet.
	owed bool
}

// New makes a Collector. It owes a sweep, since an earlier process may have been stopped before it swept.
func New(deps Deps, options Options) *Collector {
	return &Collector{
		deps: deps, options: options, metrics: newMetrics(deps.Registerer), unused: unusedSince{}, owed: true,
		sweeper: &jobs{live: deps.Live, namespace: deps.Namespace, name: options.RegistryDeployment},
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start collects until ctx ends. What fails is tried again the next time.
func (c *Collector) Start(ctx context.Context) error {
	c.note(ctx, c.resume(ctx))
	ticker := time.NewTicker(c.options.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		c.note(ctx, c.collect(ctx))
	}
}

func (c *Collector) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.metrics.failures.Inc()
		c.deps.Log.Error(err, "unused images are not collected")
	}
}

// resume holds builds for a sweep that an earlier process has begun.
func (c *Collector) resume(ctx context.Context) error {
	running, err := c.sweeper.Running(ctx)
	if err != nil || !running {
		return err
	}
	return c.whileHeld(ctx, c.sweep)
}

func (c *Collector) collect(ctx context.Context) error {
	where, err := c.deps.Registry.Default(ctx)
	if err != nil || where == nil || !where.Internal {
		return err // the installation owns only what is in its internal registry
	}
	held, err := listInventory(ctx, where.Images())
	if err != nil || held == nil {
		return err
	}
	needs, err := usage(ctx, c.deps.Live, c.deps.RuntimeImages)
	if err != nil {
		return err
	}
	expired := held.only(c.unused.expired(held.unused(needs), time.Now(), c.options.Grace))
	if len(expired) == 0 && !c.owed {
		return nil
	}
	return c.whileHeld(ctx, func(ctx context.Context) error {
		if err := c.delete(ctx, where.Images(), expired); err != nil || !c.owed {
			return err
		}
		return c.sweep(ctx)
	})
}

// whileHeld does what must not happen beside a build.
func (c *Collector) whileHeld(ctx context.Context, do func(context.Context) error) error {
	release, err := c.deps.Builds.Hold(ctx)
	if err != nil {
		return fmt.Errorf("hold builds for clearing the registry: %w", err)
	}
	defer release()
	return do(ctx)
}

// delete takes the tags and manifests of images that are still unused, as a build that has ended meanwhile may use one
// that was there.
func (c *Collector) delete(ctx context.Context, images store, expired inventory) error {
	needs, err := usage(ctx, c.deps.Live, c.deps.RuntimeImages)
	if err != nil {
		return err
	}
	for _, found := range expired.unused(needs) {
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

// listInventory lists what a registry holds, nil where nothing was ever pushed. Such a registry cannot be swept either.
func listInventory(ctx context.Context, images store) (inventory, error) {
	repositories, err := images.Repositories(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the repositories: %w", err)
	}
	if len(repositories) == 0 {
		return nil, nil
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
	started := time.Now()
	if err := c.sweeper.Sweep(ctx); err != nil {
		return err
	}
	c.owed = false
	c.metrics.sweeps.Inc()
	c.deps.Log.Info("swept the registry", "seconds", time.Since(started).Seconds())
	return nil
}
