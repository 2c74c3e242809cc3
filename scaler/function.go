package scaler

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/scaler/httpload"
)

// function is one Function that KEDA asks about, with all that is known of it.
// Its run loop is the only one that reads backlogs and places the listener;
// all others read the state or leave a note in kick.
type function struct {
	target  target
	deps    *Deps
	aheads  *aheads
	options *Options
	metrics *metrics
	log     logr.Logger

	kick         chan struct{} // a note for the loop to read the backlog now
	first        chan struct{} // closed once there is an answer of any kind
	locatedFirst chan struct{} // closed once the endpoints are known
	pods         podReadings

	mu         sync.Mutex
	activity   activity
	routes     []routing.Route
	counted    []routing.Route // those of routes whose backlog counts: a paused one's does not
	routed     bool            // routes are known, if only that there are none
	listener   *listener
	changed    chan struct{}      // closed and replaced when a stream may have to act
	located    bool               // endpoints are known, if only that there are none
	endpoints  []routing.Endpoint // those that stay
	ready      bool               // one of them is
	lostAt     time.Time          // when the last ready endpoint went away
	starting   bool               // turned active without an endpoint, and has none yet
	reached    stages             // of the wake that goes on, or of the last one
	loggedEdge uint64             // the edge that was last logged as sent
	demand     httpload.Demand
	inFlight   uint64 // events that pods may have, as last read
	podsFail   bool   // the last reading of pods gave nothing
	carries    carries
	wanting    bool // more replicas were announced last

	streams     int       // open ones of all kinds
	pushes      int       // open ones that can be pushed to
	noPushSince time.Time // when the last of those ended
	askedAt     time.Time
}

func newFunction(t target, deps *Deps, options *Options, m *metrics, a *aheads) *function {
	return &function{
		target:   t,
		deps:     deps,
		aheads:   a,
		options:  options,
		metrics:  m,
		log:      deps.Log.WithValues("function", t.function.Name, "namespace", t.function.Namespace),
		kick:     make(chan struct{}, 1),
		first:    make(chan struct{}),
		activity: activity{threshold: t.activation},
		changed:  make(chan struct{}),
		askedAt:  time.Now(),

		locatedFirst: make(chan struct{}),
	}
}

// run keeps the state current until ctx ends.
func (f *function) run(ctx context.Context) {
	follower := endpointFollower{function: f}
	defer follower.stop()
	defer f.stopListening()
	if f.countsHTTP() {
		defer f.followCalls(ctx)()
	}
	for ctx.Err() == nil {
		if routes, counted, ok := f.currentRoutes(); ok {
			follower.follow(ctx, routes)
			f.refresh(ctx, counted)
			f.announceWanted()
		}
		f.pause(ctx)
	}
}

// pause waits until the next reading is due, or is asked for.
func (f *function) pause(ctx context.Context) {
	timer := time.NewTimer(f.interval())
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.kick:
		// A stream of publishes must not become a stream of readings.
		select {
		case <-ctx.Done():
		case <-time.After(shortestPause):
		}
	}
}

// nudge has the loop read the backlog now. It never blocks.
func (f *function) nudge() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

func (f *function) currentRoutes() (routes, counted []routing.Route, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.routes, f.counted, f.routed
}

func (f *function) setRoutes(routes []routing.Route) {
	f.mu.Lock()
	same := f.routed && reflect.DeepEqual(f.routes, routes)
	f.routes, f.counted, f.routed = routes, unpaused(routes), true
	if !same {
		f.broadcast()
	}
	f.mu.Unlock()
	if !same {
		f.nudge()
	}
}

// unpaused leaves out the Subscriptions that nothing is delivered to. Pods would have nothing to do for them.
func unpaused(routes []routing.Route) []routing.Route {
	return slices.DeleteFunc(slices.Clone(routes), func(route routing.Route) bool { return route.Paused })
}

// broadcast wakes all waiters for a change. The lock must be held.
func (f *function) broadcast() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// answered wakes the callers that wait for a first answer. The lock must be held.
func (f *function) answered() {
	select {
	case <-f.first:
	default:
		close(f.first)
	}
}

// await waits, but not for long, until there is an answer of any kind.
func (f *function) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, f.options.FirstAnswerWait)
	defer cancel()
	select {
	case <-f.first:
	case <-ctx.Done():
	}
	if !f.countsHTTP() {
		return
	}
	select {
	case <-f.locatedFirst:
	case <-ctx.Done():
	}
}

// measure is the value of a metric now, or why it is not known.
func (f *function) measure(ctx context.Context, metric string) (uint64, error) {
	if metric == httpload.MetricName {
		return f.look(ctx)
	}
	return f.answer()
}

// answer is the backlog now, or why it is not known.
func (f *function) answer() (uint64, error) {
	connected := f.deps.Connection.Connected()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.activity.answer(time.Now(), f.options.Refresh.MaxAge, connected)
}

// view is the state for a stream, and a channel that closes when it is outdated.
func (f *function) view() (view, <-chan struct{}) {
	connected, held := f.deps.Connection.Connected(), f.held()
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	backlog, err := f.activity.answer(now, f.options.Refresh.MaxAge, connected)
	restless := f.activity.edge.at
	if f.lostAt.After(restless) {
		restless = f.lostAt
	}
	return view{
		active:   err == nil && float64(backlog) > f.target.activation || f.demand.Active(now, held),
		ready:    f.ready,
		restless: restless,
		edge:     f.activity.edge,
	}, f.changed
}

// lagThreshold is the backlog that one replica is meant to carry, when the
// trigger leaves it open: as many deliveries as the Function's widest
// Subscription may have in flight, also while that one is paused: a pause changes
// nothing about how the Function scales on the others.
func (f *function) lagThreshold() (float64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	widest := 0
	for _, route := range f.routes {
		widest = max(widest, route.MaxInFlight)
	}
	if widest == 0 {
		widest = defaultLagThreshold
	}
	return float64(widest), f.changed
}

// activationSent records that true went out on a stream. The first one of
// an edge is worth a line, unless the Function was awake anyway.
func (f *function) activationSent(v view) {
	f.mu.Lock()
	fresh := v.edge.number != f.loggedEdge && !v.ready
	now := time.Now()
	if fresh {
		f.loggedEdge, f.reached.sent = v.edge.number, now
	}
	f.mu.Unlock()
	if !fresh {
		return
	}
	f.log.Info("activation sent", "at", now.UTC().Format(time.RFC3339Nano), "cause", string(v.edge.cause))
	f.metrics.activations.WithLabelValues(string(v.edge.cause)).Inc()
	f.metrics.activation.WithLabelValues(string(v.edge.cause)).Observe(now.Sub(v.edge.at).Seconds())
	f.deps.Tracer.Activated(f.target.function, string(v.edge.cause), v.edge.at, now)
}

// rewatchPause parts two attempts to watch after one failed.
const rewatchPause = time.Second

// endpointFollower keeps one watch on the endpoints of a Function. It belongs to
// the Function's loop.
type endpointFollower struct {
	function *function

	follows bool
	port    int32
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

// follow watches the port that the routes deliver to. All Subscriptions of a
// Function reach the same pods, so one port shows whether there are any.
func (e *endpointFollower) follow(ctx context.Context, routes []routing.Route) {
	port, leads := e.function.port(routes)
	if port == e.port && leads == e.follows {
		return
	}
	e.stop()
	e.port, e.follows = port, leads
	if !leads {
		e.function.setEndpoints(nil)
		return
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.done.Go(func() { e.function.watchEndpoints(ctx, port) })
}

// port is that of the Service by which calls come. It returns false where nothing leads to the Function.
func (f *function) port(routes []routing.Route) (port int32, leads bool) {
	switch {
	case f.countsHTTP(): // which also a Function without Subscriptions has
		return activation.OnlyPortOfService, true
	case len(routes) > 0:
		return routes[0].Port, true
	}
	return 0, false
}

func (e *endpointFollower) stop() {
	if e.cancel != nil {
		e.cancel()
	}
	e.done.Wait()
}

func (f *function) watchEndpoints(ctx context.Context, port int32) {
	for ctx.Err() == nil {
		err := f.deps.Endpoints.Watch(ctx, f.target.function, port, f.setEndpoints)
		if err != nil && ctx.Err() == nil {
			f.log.Error(err, "cannot watch endpoints", "port", port)
		}
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

// setEndpoints records where the Function can be reached.
func (f *function) setEndpoints(endpoints []routing.Endpoint) {
	staying := slices.DeleteFunc(slices.Clone(endpoints), func(e routing.Endpoint) bool { return e.Terminating })
	ready := slices.ContainsFunc(staying, func(e routing.Endpoint) bool { return e.Ready })
	if course, woken := f.locate(staying, ready, time.Now()); woken {
		f.announceWoken(course)
	}
}

// locate records endpoints, and returns the course of a wake that has ended with them.
func (f *function) locate(staying []routing.Endpoint, ready bool, now time.Time) (course activation.Wake, woken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints = staying
	if !f.located {
		f.located = true
		close(f.locatedFirst)
	}
	if f.starting && len(staying) > 0 && f.reached.addressed.Before(f.activity.edge.at) {
		f.reached.addressed = now
	}
	if ready == f.ready {
		return course, false
	}
	f.ready = ready
	if !ready {
		f.lostAt = now
	}
	if woken = ready && f.starting; woken {
		f.metrics.ready.Observe(now.Sub(f.activity.edge.at).Seconds())
		f.starting = false
		course = courseOf(f.activity.edge, f.reached, now)
	}
	f.broadcast()
	return course, woken
}
