package activator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
)

// Endpoints watches where a Service can be reached.
type Endpoints interface {
	// Watch calls apply with the endpoints of the Service's port, at once and after each change, one call at a time, until ctx ends.
	Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error
}

// Functions tells what is known of a Function.
type Functions interface {
	// Condition answers from memory.
	Condition(function types.NamespacedName) Condition
}

// Condition is what is known of a Function that has no pod.
type Condition struct {
	// Wait is how long a request may wait for it; 0: the default.
	Wait time.Duration
	// Broken is why it cannot start, as far as is known and callers may read it; empty when it can.
	Broken string
	// Reason is why it has no pod yet; empty: it takes its time.
	Reason string
	// Changed is closed when there may be something new; nil: that is asked for several times a second.
	Changed <-chan struct{}
}

// Request is one that is counted.
type Request interface {
	// Run counts it as one that a pod has, Wait as one that none has, and End no more.
	Run()
	Wait()
	End()
}

// Deps is what Activators work with.
type Deps struct {
	Endpoints Endpoints
	Functions Functions
	Begin     func(function types.NamespacedName) Request // counts one as waiting
	Heads     *forward.Heads                              // of answers; nil: its own
	Registry  prometheus.Registerer
	Log       logr.Logger
}

// Activators answer the requests of all Functions.
type Activators struct {
	deps      Deps
	options   Options
	metrics   *metrics
	guard     dialguard.Guard
	transport *http.Transport
	waiting   *waiting
	wait      atomic.Int64 // a time.Duration: how long one may, where the Function does not say

	ctx     context.Context //nolint:containedctx // that of Run: what follows a Function outlives the request that began it
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	functions map[types.NamespacedName]*function
	ended     bool
}

// New makes Activators from valid options. They answer from now on, until Close.
func New(deps Deps, options Options) *Activators {
	ctx, stop := context.WithCancel(context.Background())
	a := &Activators{
		deps: deps, options: options, waiting: newWaiting(options.MaxWaitingBytes), ctx: ctx, stop: stop, functions: map[types.NamespacedName]*function{},
		guard: dialguard.Guard{AllowLoopback: options.AllowLoopback}, // who may write EndpointSlices names addresses
	}
	if a.deps.Heads == nil {
		a.deps.Heads = forward.NewHeads()
	}
	a.SetWait(options.Wait)
	a.metrics = newMetrics(deps.Registry)
	a.transport = newTransport(a.guard, options.FreshConnections)
	return a
}

// SetWait changes how long a request may wait for a pod where its Function does not say, for the requests from now on.
func (a *Activators) SetWait(wait time.Duration) { a.wait.Store(int64(wait)) }

// Close ends what follows the Functions, after the last request.
func (a *Activators) Close() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.stop()
	a.running.Wait()
	a.transport.CloseIdleConnections()
}

// borrow finds the state of a Function, and begins to follow one that had no request lately. It is held until giveBack.
func (a *Activators) borrow(name types.NamespacedName) *function {
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

func (a *Activators) giveBack(f *function) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.requests--; f.requests == 0 && !a.ended {
		f.expiry = time.AfterFunc(a.options.ForgetAfter, func() { a.forget(f) })
	}
}

func (a *Activators) forget(f *function) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.requests == 0 && a.functions[f.name] == f {
		delete(a.functions, f.name)
		f.end()
	}
}

// Options bounds what waits.
type Options struct {
	// Wait is how long a request may wait for a pod, where the Function does not say.
	Wait time.Duration
	// MaxWaiting is how many requests of one Function may wait at a time.
	MaxWaiting int
	// MaxWaitingBytes bounds the memory for all requests that wait. A namespace, and a caller, take no more of it than they leave free.
	MaxWaitingBytes int64
	// DialInterval is the pause between two attempts to connect to a pod that starts.
	DialInterval time.Duration
	// BodyTimeout is for how long a caller may send nothing of a body that he has announced.
	BodyTimeout time.Duration
	// ForgetAfter is how long the pods of a Function are followed after its last request.
	ForgetAfter time.Duration

	// The following are for local mode. No flag sets them.

	// AllowLoopback is for pods that are processes of this machine.
	AllowLoopback bool
	// StayOnPath keeps callers' connections while a pod is ready: no Service leads to the pods.
	StayOnPath bool
	// FreshConnections makes one to a pod for each request. In a cluster a pod goes on for a while before it ends; one that does not
	// would close a kept connection while a request is on its way.
	FreshConnections bool
}

// DefaultOptions are the values that a cluster runs with.
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

// BindFlags adds the options to fs, with their present values as defaults.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Wait, "wait", o.Wait, "how long a request may wait for a pod, where the Function does not say")
	fs.IntVar(&o.MaxWaiting, "max-waiting", o.MaxWaiting, "how many requests of one Function may wait at a time")
	fs.Int64Var(&o.MaxWaitingBytes, "max-waiting-bytes", o.MaxWaitingBytes, "memory for all requests that wait")
	fs.DurationVar(&o.DialInterval, "dial-interval", o.DialInterval, "pause between two attempts to connect to a pod that starts")
	fs.DurationVar(&o.BodyTimeout, "body-timeout", o.BodyTimeout, "for how long a caller may send nothing of the body that he has announced")
	fs.DurationVar(&o.ForgetAfter, "forget-after", o.ForgetAfter, "how long the pods of a Function are followed after its last request")
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	var problems []error
	for flag, value := range map[string]time.Duration{
		"wait": o.Wait, "dial-interval": o.DialInterval, "body-timeout": o.BodyTimeout, "forget-after": o.ForgetAfter,
	} {
		if value <= 0 {
			problems = append(problems, fmt.Errorf("--%s must be more than 0, is %s", flag, value))
		}
	}
	if o.MaxWaiting < 1 {
		problems = append(problems, fmt.Errorf("--max-waiting must be at least 1, is %d", o.MaxWaiting))
	}
	if o.MaxWaitingBytes < waitingCost {
		problems = append(problems, fmt.Errorf("--max-waiting-bytes must be at least %d, is %d", waitingCost, o.MaxWaitingBytes))
	}
	return errors.Join(problems...)
}

// waitBuckets reach from a pod that is there to one that pulls its image.
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
