package scaler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// forgetEvery is how often Functions are forgotten that KEDA does not ask about.
const forgetEvery = 30 * time.Second

// tracker holds the functions that KEDA asks about, and hands each its routes.
type tracker struct {
	deps    *Deps
	options *Options
	metrics *metrics

	created chan struct{} // a note that there is a function to start

	mu        sync.Mutex
	functions map[target]*function
	waiting   []*function                              // not started yet
	stops     map[target]context.CancelFunc            // ends a started one
	routes    map[types.NamespacedName][]routing.Route // by Function
	routed    bool                                     // routes are known
}

func newTracker(deps *Deps, options *Options, m *metrics) *tracker {
	return &tracker{
		deps:      deps,
		options:   options,
		metrics:   m,
		created:   make(chan struct{}, 1),
		functions: map[target]*function{},
		stops:     map[target]context.CancelFunc{},
	}
}

// run keeps the functions going until ctx ends, and forgets those that KEDA does
// not ask about any more.
func (t *tracker) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ticker := time.NewTicker(forgetEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.created:
			t.start(ctx, &running)
		case <-ticker.C:
			t.forget(time.Now())
		}
	}
}

func (t *tracker) start(ctx context.Context, running *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.waiting {
		ctx, cancel := context.WithCancel(ctx)
		t.stops[f.target] = cancel
		running.Go(func() { f.run(ctx) })
	}
	t.waiting = nil
}

func (t *tracker) forget(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, f := range t.functions {
		stop, started := t.stops[key]
		if !started || !f.abandoned(now, t.options.ForgetAfter) {
			continue
		}
		stop()
		delete(t.stops, key)
		delete(t.functions, key)
		f.log.V(1).Info("function forgotten, as KEDA does not ask about it any more")
	}
	t.metrics.tracked.Set(float64(len(t.functions)))
}

// function finds the state of a Function, and begins to follow one that was not
// asked about before.
func (t *tracker) function(key target) *function {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.functions[key]
	if !ok {
		f = newFunction(key, t.deps, t.options, t.metrics)
		f.routes, f.counted, f.routed = t.routes[key.function], unpaused(t.routes[key.function]), t.routed
		t.functions[key] = f
		t.metrics.tracked.Set(float64(len(t.functions)))
		t.waiting = append(t.waiting, f)
		select {
		case t.created <- struct{}{}:
		default:
		}
	}
	f.asked()
	return f
}

// setRoutes hands each Function the Subscriptions that deliver to it, events or dead
// letters, those of other namespaces only where the operator allows such sinks.
func (t *tracker) setRoutes(routes []routing.Route) {
	byFunction := map[types.NamespacedName][]routing.Route{}
	for route := range routing.WithDeadLetters(routes) {
		own := route.Subscription.Namespace == route.Service.Namespace
		if own || t.options.Sinks.Opens() && !route.External {
			byFunction[route.Service] = append(byFunction[route.Service], route)
		}
	}
	for _, found := range byFunction {
		slices.SortStableFunc(found, func(a, b routing.Route) int { return cmp.Compare(a.Consumer, b.Consumer) })
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.routes, t.routed = byFunction, true
	for key, f := range t.functions {
		f.setRoutes(byFunction[key.function])
	}
}

// nudge has all backlogs read now.
func (t *tracker) nudge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.functions {
		f.nudge()
	}
}

// knowsRoutes reports whether the Subscriptions are known.
func (t *tracker) knowsRoutes() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.routed
}

// oldest is the age in seconds of the oldest backlog in memory.
func (t *tracker) oldest() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	var oldest time.Duration
	for _, f := range t.functions {
		oldest = max(oldest, f.age(now))
	}
	return oldest.Seconds()
}

// asked records that KEDA asks about the function.
func (f *function) asked() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedAt = time.Now()
}

// abandoned reports whether KEDA does not ask about the function any more.
func (f *function) abandoned(now time.Time, after time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams == 0 && now.Sub(f.askedAt) > after
}
