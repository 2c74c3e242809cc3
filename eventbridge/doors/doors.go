package doors

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/flags"
)

// Watch lists the Doors. It calls apply with the full list, at once and after each change, one call at a time, until ctx ends. Nobody
// changes what is in it.
type Watch func(ctx context.Context, apply func([]door.Known)) error

// Ingress takes events as those of publishers.
type Ingress interface {
	// ServeHTTP takes a request to a publish path.
	http.Handler
	// Store stores an event and responds, and reports whether it is stored.
	Store(w http.ResponseWriter, r *http.Request, ev *cloudevent.Event) bool
}

// Deps are the dependencies of Doors.
type Deps struct {
	Watch Watch
	// Gateway returns nil for a token of a gateway. Without it all requests are one's own, as in a single process.
	Gateway func(ctx context.Context, token string) error
	Ingress Ingress
	// Allow returns an error for an event that a namespace may not publish.
	Allow func(namespace string, ev *cloudevent.Event) error
	Store Store
	// ID distinguishes this replica from all others.
	ID         string
	Now        func() time.Time
	Registerer prometheus.Registerer
	Log        logr.Logger
}

// Options bound what arrives at Doors.
type Options struct {
	Share    door.Share
	MaxBody  int64 // bytes of a request
	MaxBytes int64 // bytes of all requests in progress
}

// DefaultOptions returns the chart's defaults.
func DefaultOptions() Options {
	const body, bytes = 1 << 20, 32 << 20
	return Options{Share: door.DefaultShare(), MaxBody: body, MaxBytes: bytes}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Size(&o.MaxBody, "door-max-body", "largest body of a request to a Door, for example 1Mi").AtLeast(1)
	fs.Size(&o.MaxBytes, "door-max-bytes", "bytes of requests to Doors that are read at a time; those that arrive longest make room for further ones").
		Must(o.MaxBytes >= 2*o.MaxBody, "be at least twice --door-max-body")
	fs.Add(&o.Share)
}

// computing bounds the requests whose signatures and mappings are computed at a time, and waitToCompute those that wait for that.
const (
	computing     = 8
	waitToCompute = 512
)

// Doors takes the requests to Doors.
type Doors struct {
	deps    Deps
	options Options
	bodies  *ingress.Bodies
	work    *fair.Pool // places to compute, by namespace
	ledger  *ledger
	reports *reports
	metrics *metrics

	loaded  atomic.Bool
	current atomic.Pointer[map[types.NamespacedName]*entry]
}

// entry is a Door that holds.
type entry struct {
	*door.Door

	spec    *v1alpha1.Door
	keys    *door.Keys
	limiter *limiter
	chains  *cache.LRUExpireCache // of client certificates that were verified, by the hash of what gateways write
}

const (
	// maxChains bounds the chains of certificates of a Door that are remembered, and chainsFor how long.
	maxChains = 64
	chainsFor = 5 * time.Minute
)

// New returns Doors. They know none before Run.
func New(deps Deps, options Options) *Doors {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	d := &Doors{
		deps: deps, options: options, bodies: ingress.NewBodies(options.MaxBytes),
		work:   fair.NewPool(fair.Limits{Total: computing, Waiting: waitToCompute}),
		ledger: newLedger(deps.Store, deps.Log), reports: newReports(), metrics: newMetrics(deps.Registerer),
	}
	d.current.Store(&map[types.NamespacedName]*entry{})
	return d
}

// retryInterval is between tries to follow what has to be followed.
const retryInterval = time.Second

// Run follows the Doors, and keeps the ledger, until ctx ends.
func (d *Doors) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() {
		d.persist(ctx, "watch Doors", func(ctx context.Context) error { return d.deps.Watch(ctx, d.set) })
	})
	running.Go(func() { d.persist(ctx, "follow the deliveries of Doors", d.ledger.follow) })
	running.Go(func() { d.ledger.flushUntil(ctx) })
	running.Go(func() { d.reports.send(ctx, d.deps.Store, d.deps.ID) })
	running.Wait()
	return nil
}

// persist runs follow until ctx ends, and again when it returns.
func (d *Doors) persist(ctx context.Context, what string, follow func(context.Context) error) {
	daemon.Persist(ctx, d.deps.Log.V(1), what, retryInterval, follow)
}

// set compiles what changed. A Door that is not valid, or exceeds its namespace's share, is as if it were missing; the controller
// reports why.
func (d *Doors) set(all []door.Known) {
	before := *d.current.Load()
	over := d.over(all)
	next := make(map[types.NamespacedName]*entry, len(all))
	for _, each := range all {
		name := types.NamespacedName{Namespace: each.Door.Namespace, Name: each.Door.Name}
		if _, exceeds := over[string(each.Door.UID)]; exceeds || each.Door.DeletionTimestamp != nil {
			continue
		}
		was := before[name]
		if was != nil && was.spec.UID == each.Door.UID && was.spec.Generation == each.Door.Generation && was.keys.Equal(each.Keys) {
			next[name] = was
			continue
		}
		compiled, err := door.New(each.Door, each.Keys)
		if err != nil {
			continue
		}
		next[name] = &entry{Door: compiled, spec: each.Door, keys: each.Keys, limiter: newLimiter(compiled.RequestsPerSecond), chains: cache.NewLRUExpireCache(maxChains)}
	}
	for name := range before {
		if next[name] == nil {
			d.metrics.forget(name)
		}
	}
	d.current.Store(&next)
	d.loaded.Store(true)
	d.metrics.doors.Set(float64(len(next)))
}

func (d *Doors) over(all []door.Known) map[string]string {
	byNamespace := map[string][]*v1alpha1.Door{}
	for _, each := range all {
		byNamespace[each.Door.Namespace] = append(byNamespace[each.Door.Namespace], each.Door)
	}
	over := map[string]string{}
	for _, of := range byNamespace {
		maps.Copy(over, d.options.Share.Over(of))
	}
	return over
}

// find returns the Door that a gateway names, namespace/name.
func (d *Doors) find(name string) *entry {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		return nil
	}
	return (*d.current.Load())[types.NamespacedName{Namespace: namespace, Name: name}]
}
