package images

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/registry"
)

// Options configures a Collector.
type Options struct {
	// RegistryDeployment is the Deployment of the internal registry in the release's namespace. Empty: nothing is
	// collected.
	RegistryDeployment string
	// Interval is how often garbage is collected.
	Interval time.Duration
	// Grace is how long an image has to be unused before it is deleted.
	Grace time.Duration
}

// DefaultOptions returns the settings of an installation that sets none.
func DefaultOptions() Options { return Options{Interval: time.Hour, Grace: time.Hour} }

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.RegistryDeployment, "image-gc-registry", "Deployment of the internal registry whose unused images are deleted; empty: none")
	fs.Duration(&o.Interval, "image-gc-interval", "how often unused images are looked for").Between(time.Second, 24*time.Hour)
	fs.Duration(&o.Grace, "image-gc-grace", "how long an image has to be unused before it is deleted").AtLeast(0)
}

const (
	// collectTimeout bounds a collection. The next one continues where this one ended.
	collectTimeout = 15 * time.Minute
	// batch is the number of a Function's tags that are examined, and possibly deleted, in one turn.
	batch = 50
	// batchTimeout bounds how long no build of that Function starts meanwhile.
	batchTimeout = 10 * time.Second
)

// Builds excludes the builds of a Function.
type Builds interface {
	// Between runs do while no build of a Function runs, and lets none of it start meanwhile. It returns false without
	// running do when one runs.
	Between(ctx context.Context, fn types.NamespacedName, do func() error) (done bool, err error)
}

// Deps are the dependencies of a Collector.
type Deps struct {
	// Live bypasses the cache.
	Live client.Reader
	// Registry finds the internal registry.
	Registry   *Resolver
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
	metrics *metrics
	unused  *unusedSince
}

// New returns a Collector.
func New(deps Deps, options Options) *Collector {
	return &Collector{deps: deps, options: options, metrics: newMetrics(deps.Registerer), unused: newUnusedSince()}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start collects until ctx ends. Failures are retried the next time.
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
			c.deps.Log.Error(err, "cannot collect unused images")
		}
	}
}

// part is a repository, or some tags of one.
type part struct {
	repository string
	tags       []string // nil: not listed yet
}

// collect examines all images, namespaces in turn.
func (c *Collector) collect(ctx context.Context) error {
	where, err := c.deps.Registry.Default(ctx)
	if err != nil || where == nil || !where.Internal {
		return err // the installation owns only its internal registry
	}
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	images := where.Images()
	repositories, err := images.Repositories(ctx)
	if err != nil {
		return fmt.Errorf("list the repositories: %w", err)
	}
	used, err := usage(ctx, c.deps.Live, c.deps.RuntimeImages)
	if err != nil {
		return err
	}
	var turns fair.Queue[part]
	for _, repository := range repositories {
		turns.Push(namespaceOf(repository), part{repository: repository})
	}
	c.unused.begin()
	failed := map[string]error{} // by namespace, whose remaining parts are skipped
	for next, ok := turns.Pop(); ok; next, ok = turns.Pop() {
		namespace := namespaceOf(next.repository)
		if failed[namespace] != nil {
			continue
		}
		if err := c.take(ctx, images, used, next, &turns); err != nil {
			failed[namespace] = fmt.Errorf("repository %s: %w", next.repository, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("end the collection with %d parts left: %w", turns.Len(), ctx.Err())
		}
	}
	if len(failed) == 0 {
		c.unused.end()
	}
	return joined(failed)
}

// take lists the tags of a repository, or examines some of them.
func (c *Collector) take(ctx context.Context, images *registry.Client, used needs, next part, turns *fair.Queue[part]) error {
	if next.tags != nil {
		return c.look(ctx, images, used, next)
	}
	tags, err := images.Tags(ctx, next.repository)
	if err != nil || len(tags) == 0 {
		return err
	}
	if _, _, ours := registry.FunctionOf(next.repository); !ours { // whether an image is needed depends on all of its tags
		return c.look(ctx, images, used, part{next.repository, tags})
	}
	// In random order, so that the first tags do not keep the others from being examined.
	rand.Shuffle(len(tags), func(i, j int) { tags[i], tags[j] = tags[j], tags[i] }) //nolint:gosec // no secret
	for some := range slices.Chunk(tags, batch) {
		turns.Push(namespaceOf(next.repository), part{next.repository, some})
	}
	return nil
}

// look finds the images of some tags, and deletes those that have been unused for the grace period.
func (c *Collector) look(ctx context.Context, images *registry.Client, used needs, tags part) error {
	held, err := inventoryOf(ctx, images, tags)
	if err != nil {
		return err
	}
	expired := held.only(c.unused.expired(held, used, time.Now(), c.options.Grace))
	if len(expired) == 0 {
		return nil
	}
	namespace, function, ours := registry.FunctionOf(tags.repository)
	if !ours {
		return c.delete(ctx, images, expired)
	}
	fn := types.NamespacedName{Namespace: namespace, Name: function}
	_, err = c.deps.Builds.Between(ctx, fn, func() error {
		ctx, cancel := context.WithTimeout(ctx, batchTimeout)
		defer cancel()
		return c.delete(ctx, images, expired, client.InNamespace(namespace))
	})
	return err
}

// delete deletes the tags of images that are still unused: a build that ended meanwhile may have pushed one again. A
// tag that points to another image now stays.
func (c *Collector) delete(ctx context.Context, images *registry.Client, expired inventory, in ...client.ListOption) error {
	used, err := usage(ctx, c.deps.Live, c.deps.RuntimeImages, in...)
	if err != nil {
		return err
	}
	for _, found := range expired.unused(used) {
		for _, tag := range expired[found] {
			digest, there, err := images.Digest(ctx, found.repository, tag)
			if err == nil && there && digest == found.digest {
				err = images.DeleteTag(ctx, found.repository, tag)
			}
			if err != nil {
				return fmt.Errorf("delete an unused image: %w", err)
			}
		}
		c.deps.Log.Info("deleted an unused image", "repository", found.repository, "digest", found.digest)
		c.metrics.deleted.Inc()
		c.unused.forget(found)
	}
	return nil
}

// inventoryOf returns the images that the tags point to.
func inventoryOf(ctx context.Context, images *registry.Client, tags part) (inventory, error) {
	held := inventory{}
	for _, tag := range tags.tags {
		digest, found, err := images.Digest(ctx, tags.repository, tag)
		if err != nil {
			return nil, fmt.Errorf("resolve tag %s: %w", tag, err)
		}
		if found {
			at := image{tags.repository, digest}
			held[at] = append(held[at], tag)
		}
	}
	return held, nil
}

// namespaceOf returns the namespace that owns a repository, empty for shared ones.
func namespaceOf(repository string) string {
	namespace, _, _ := registry.FunctionOf(repository)
	return namespace
}

type metrics struct {
	deleted, failures prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_controller_images_deleted_total", Help: "Images of the internal registry that were deleted because they were unused.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rouse_controller_image_collection_failures_total", Help: "Times that unused images could not be collected.",
		}),
	}
	registry.MustRegister(m.deleted, m.failures)
	return m
}
