package activator

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
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
