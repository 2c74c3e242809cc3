package activator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
)

// Endpoints watches the addresses of a Service.
type Endpoints interface {
	// Watch calls apply with the endpoints of the Service's port, at once and after each change, one call at a time, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// Functions returns the state of Functions.
type Functions interface {
	// Condition reads from memory.
	Condition(function types.NamespacedName) Condition
}

// Condition is the state of a Function without a pod.
type Condition struct {
	// Wait is how long a request may wait for it; 0: the default.
	Wait time.Duration
	// Stay is true if callers have no other way to its pods, so that their connections stay.
	Stay bool
	// Broken is why it cannot start, in a form that callers may read; empty when it can.
	Broken string
	// Reason is why it has no pod yet; empty: it is starting.
	Reason string
	// Changed is closed when the condition may have changed; nil: it is polled several times a second.
	Changed <-chan struct{}
}

// Request is a counted request.
type Request interface {
	// Run counts it as running, Wait as waiting for a pod, and End no longer.
	Run()
	Wait()
	End()
}

// Deps are the dependencies of Activator.
type Deps struct {
	Endpoints Endpoints
	Functions Functions
	Begin     func(function types.NamespacedName) Request // counts a request as waiting
	Heads     *forward.Heads                              // of responses; nil: its own
	Registry  prometheus.Registerer
	Log       logr.Logger
}

// Activator serve the requests of all Functions, and wake those that sleep.
type Activator struct {
	deps      Deps
	options   Options
	metrics   *metrics
	guard     dialguard.Guard
	transport *forward.Transport
	waiting   *waiting
	wait      atomic.Int64 // a time.Duration: how long a request may wait unless the Function sets it

	ctx     context.Context //nolint:containedctx // context of Run: watches outlive the request that started them
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	functions map[types.NamespacedName]*function
	ended     bool
}

// New returns Activator for valid options. They serve until Close.
func New(deps Deps, options Options) *Activator {
	ctx, stop := context.WithCancel(context.Background())
	a := &Activator{
		deps: deps, options: options, waiting: newWaiting(options.MaxWaitingBytes), ctx: ctx, stop: stop, functions: map[types.NamespacedName]*function{},
		guard: dialguard.Guard{AllowLoopback: options.AllowLoopback}, // EndpointSlices contain arbitrary addresses
	}
	if a.deps.Heads == nil {
		a.deps.Heads = forward.NewHeads()
	}
	a.SetWait(options.Wait)
	a.metrics = newMetrics(deps.Registry)
	a.transport = forward.NewTransport(a.guard.Dialer(dialTimeout).DialContext, options.FreshConnections)
	return a
}

// SetWait changes how long further requests may wait for a pod unless their Function sets it.
func (a *Activator) SetWait(wait time.Duration) { a.wait.Store(int64(wait)) }

// Close stops the watches, after the last request.
func (a *Activator) Close() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.stop()
	a.running.Wait()
	a.transport.CloseIdleConnections()
}

// borrow returns the state of a Function, and starts to watch one without recent requests. The caller holds it until
// giveBack.
func (a *Activator) borrow(name types.NamespacedName) *function {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.functions[name]
	if f == nil {
		f = newFunction(name, a)
		a.functions[name] = f
		if !a.ended {
			a.running.Go(func() { f.follow(a.ctx) })
		}
	}
	f.requests++
	if f.expiry != nil {
		f.expiry.Stop()
		f.expiry = nil
	}
	return f
}

func (a *Activator) giveBack(f *function) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.requests--; f.requests == 0 && !a.ended {
		f.expiry = time.AfterFunc(a.options.ForgetAfter, func() { a.forget(f) })
	}
}

func (a *Activator) forget(f *function) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.requests == 0 && a.functions[f.name] == f {
		delete(a.functions, f.name)
		f.end()
	}
}

// Options bounds waiting requests.
type Options struct {
	// Wait is how long a request may wait for a pod unless the Function sets it.
	Wait time.Duration
	// MaxWaiting bounds the waiting requests of one Function.
	MaxWaiting int
	// MaxWaitingBytes bounds the memory of all waiting requests. A namespace, and a caller, take at most as much as
	// they leave free.
	MaxWaitingBytes int64
	// DialInterval is the pause between two connection attempts to a starting pod.
	DialInterval time.Duration
	// BodyTimeout bounds how long a caller may send nothing of an announced body.
	BodyTimeout time.Duration
	// ForgetAfter is how long the pods of a Function are watched after its last request.
	ForgetAfter time.Duration

	// The following options are for local mode and have no flags.

	// AllowLoopback allows pods that are processes on this machine.
	AllowLoopback bool
	// StayOnPath keeps callers' connections while a pod is ready, because no Service leads to the pods.
	StayOnPath bool
	// FreshConnections opens a connection for each request. In a cluster a pod serves for a while before it terminates;
	// a process that does not could close an idle connection just as a request is sent.
	FreshConnections bool
}

// DefaultOptions returns the defaults in a cluster.
func DefaultOptions() Options {
	return Options{
		Wait:            time.Minute,
		MaxWaiting:      1000,
		MaxWaitingBytes: 128 << 20,
		DialInterval:    5 * time.Millisecond,
		BodyTimeout:     time.Minute,
		ForgetAfter:     5 * time.Minute,
	}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Duration(&o.Wait, "wait", "how long a request may wait for a pod, unless the Function sets it").MoreThan(0)
	fs.Int(&o.MaxWaiting, "max-waiting", "how many requests of one Function may wait at a time").AtLeast(1)
	fs.Int64(&o.MaxWaitingBytes, "max-waiting-bytes", "memory for all requests that wait").AtLeast(waitingCost)
	fs.Duration(&o.DialInterval, "dial-interval", "pause between two attempts to connect to a pod that starts").MoreThan(0)
	fs.Duration(&o.BodyTimeout, "body-timeout", "how long a caller may send nothing of an announced body").MoreThan(0)
	fs.Duration(&o.ForgetAfter, "forget-after", "how long the pods of a Function are watched after its last request").MoreThan(0)
}

// waitBuckets range from a pod that is ready to one that pulls its image.
var waitBuckets = []float64{.01, .05, .1, .25, .5, .75, 1, 1.5, 2, 3, 5, 8, 15, 30, 60}

type metrics struct {
	requests *prometheus.CounterVec
	wait     prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	factory := promauto.With(registerer)
	return &metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_gateway_requests_total",
			Help: "Requests to activators that have ended, by how: served, timeout, overload, broken, client_gone, unfinished or failed.",
		}, []string{"outcome"}),
		wait: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "rouse_gateway_wait_seconds", Help: "Time that requests waited for a pod which then got them.", Buckets: waitBuckets,
		}),
	}
}

func (m *metrics) finished(e *exchange) {
	m.requests.WithLabelValues(string(e.outcome)).Inc()
	if e.outcome == served && e.waited >= time.Millisecond {
		m.wait.Observe(e.waited.Seconds())
	}
}
