package scaler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// forgetEvery is the interval at which Functions are forgotten that KEDA has stopped polling.
const forgetEvery = 30 * time.Second

// tracker holds the functions that KEDA asks about, and hands each its routes.
type tracker struct {
	deps    *Deps
	options *Options
	metrics *metrics

	created chan struct{} // a note that there is a function to start

	places *fair.Pool // what is followed, by namespace
	aheads *aheads

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
		places:    fair.NewPool(fair.Limits{Total: followedWithin(debug.SetMemoryLimit(-1))}),
		aheads:    newAheads(deps.Listener),
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
		t.places.Release(key.function.Namespace, 1)
		f.log.V(1).Info("function forgotten: KEDA has stopped polling it")
	}
	t.metrics.tracked.Set(float64(len(t.functions)))
}

// The bounds of what is followed, and what one Function takes of the memory.
const (
	leastFollowed = 1 << 10
	mostFollowed  = 1 << 15
	followedBytes = 32 << 10
)

// followedWithin returns how many Functions may be followed within a memory limit, math.MaxInt64 where there is none.
func followedWithin(memoryLimit int64) int64 {
	return min(max(memoryLimit/followedBytes, leastFollowed), mostFollowed)
}

// function finds the state of a Function, and begins to follow one that was not
// asked about before, unless its namespace has its share of what is followed.
func (t *tracker) function(asked request) (*function, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := asked.target
	f, ok := t.functions[key]
	if !ok && !t.places.TryAcquire(key.function.Namespace, 1) {
		return nil, status.Errorf(codes.ResourceExhausted, "the scaler follows %d triggers of namespace %s, and no more than it leaves to others: delete some",
			t.places.Held(key.function.Namespace), key.function.Namespace)
	}
	if !ok {
		f = newFunction(key, t.deps, t.options, t.metrics, t.aheads)
		f.routes, f.counted, f.routed = t.routes[key.function], unpaused(t.routes[key.function]), t.routed
		t.functions[key] = f
		t.metrics.tracked.Set(float64(len(t.functions)))
		t.waiting = append(t.waiting, f)
		select {
		case t.created <- struct{}{}:
		default:
		}
	}
	f.asked(carries{lag: asked.lagThreshold, concurrency: asked.httpConcurrency})
	return f, nil
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

// asked records that KEDA asks about the function, and what a replica is meant to carry.
func (f *function) asked(each carries) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.askedAt, f.carries = time.Now(), each
}

// abandoned reports whether KEDA does not ask about the function any more.
func (f *function) abandoned(now time.Time, after time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams == 0 && now.Sub(f.askedAt) > after
}

// errUnknown means that the backlog could not be read.
var errUnknown = errors.New("backlog is not known")

// phase reports whether a Function has work.
type phase int

const (
	phaseUnknown phase = iota
	phaseIdle
	phaseActive
)

// cause is the reason why a Function became active.
type cause string

const (
	causePublish cause = activation.WokenByPublish
	causePoll    cause = activation.WokenByPoll
	causeRequest cause = activation.WokenByRequest
)

// edge is one change from idle, or unknown, to active.
type edge struct {
	number uint64 // counts the edges of a Function; 0 before the first
	at     time.Time
	cause  cause
}

// activity decides, from publishes and readings, whether a Function is active
// and what its backlog is. It is a plain value without a lock or a clock. Its
// edges are also those of calls over HTTP.
type activity struct {
	threshold float64 // active means a backlog above this

	phase   phase
	backlog uint64
	seen    time.Time // when the newest evidence for backlog was gathered
	woken   time.Time // set while a publish is all that speaks for a backlog
	failure error     // why the newest reading failed; nil when it did not
	edge    edge
}

// published records a message for the Function. The message alone makes
// it active, before JetStream can say so, unless one message is too few.
func (a *activity) published(now time.Time) (turned bool) {
	if a.phase == phaseActive || a.threshold >= 1 {
		return false
	}
	a.turnActive(now, causePublish)
	a.backlog, a.seen, a.woken = 1, now, now
	return true
}

// read records a backlog that was asked for at began. A backlog of 0
// right after a publish is not believed: the message may not be stored yet.
func (a *activity) read(began time.Time, backlog uint64, grace time.Duration) (turned bool) {
	a.failure = nil
	if float64(backlog) > a.threshold {
		turned = a.phase != phaseActive
		if turned {
			a.turnActive(began, causePoll)
		}
		a.backlog, a.seen, a.woken = backlog, began, time.Time{}
		return turned
	}
	if !a.idle(began, backlog, grace) {
		return false
	}
	turned = a.phase != phaseIdle
	a.phase, a.backlog, a.seen, a.woken = phaseIdle, backlog, began, time.Time{}
	return turned
}

// idle reports whether a backlog that was asked for at began means idle.
func (a *activity) idle(began time.Time, backlog uint64, grace time.Duration) bool {
	doubtful := a.provisional() && began.Before(a.woken.Add(grace))
	return float64(backlog) <= a.threshold && !doubtful
}

// failed records a reading that gave nothing.
func (a *activity) failed(err error) { a.failure = err }

func (a *activity) turnActive(now time.Time, why cause) {
	a.phase = phaseActive
	a.addEdge(now, why)
}

func (a *activity) addEdge(now time.Time, why cause) {
	a.edge = edge{number: a.edge.number + 1, at: now, cause: why}
}

// provisional is true while a publish is all that speaks for a backlog.
func (a *activity) provisional() bool { return !a.woken.IsZero() }

// answer is the backlog, or why it is not known. A reading that says idle is
// not repeated once there is reason to doubt it, because KEDA takes pods away on
// it; one that says active may grow old, because nothing is lost by it.
func (a *activity) answer(now time.Time, maxAge time.Duration, connected bool) (uint64, error) {
	switch age := now.Sub(a.seen); {
	case a.phase == phaseUnknown && a.failure != nil:
		return 0, fmt.Errorf("%w: %w", errUnknown, a.failure)
	case a.phase == phaseUnknown:
		return 0, fmt.Errorf("%w: not read yet", errUnknown)
	case age > maxAge:
		return 0, fmt.Errorf("%w: last read %s ago", errUnknown, age.Round(time.Second))
	case a.phase == phaseIdle && a.failure != nil:
		return 0, fmt.Errorf("%w: %w", errUnknown, a.failure)
	case a.phase == phaseIdle && !connected:
		return 0, fmt.Errorf("%w: not connected to NATS", errUnknown)
	}
	return a.backlog, nil
}

const (
	// lookEvery is the pause between two looks at the calls of a Function that
	// has pods, and between two announcements that it is idle. Gateways stay
	// listed for several times as long.
	lookEvery = 3 * time.Second
	// keptInterest bounds how long a Function is watched after KEDA's last request.
	keptInterest = time.Minute
)

// watchCalls looks at the calls of the Function while it has pods, and announces
// that it is idle. Calls that a look finds keep KEDA's cooldown from running,
// also where KEDA asks seldom, or asks another replica.
func (f *function) watchCalls(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Jitter(lookEvery, 0.2)):
		}
		if !f.mayFallAsleep() {
			continue
		}
		if _, err := f.look(ctx); err != nil || !f.isIdle() {
			continue
		}
		if err := f.deps.HTTP.Idleness.AnnounceIdle(f.target.function); err != nil {
			f.log.V(1).Info("cannot announce that the function is idle", "reason", err.Error())
		}
	}
}

// mayFallAsleep reports whether there are pods that KEDA may take away.
func (f *function) mayFallAsleep() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.streams > 0 || time.Since(f.askedAt) < keptInterest
	return asked && len(f.endpoints) > 0
}

// isIdle reports whether nothing needs the Function, as far as the last look says.
func (f *function) isIdle() bool {
	backlog, err := f.answer()
	if err != nil || float64(backlog) > f.target.activation {
		return false
	}
	held := f.held()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.demand.Idle(time.Now(), held)
}

// watchListing follows whether callers reach the Function through gateways. Not
// to know means that they do not.
func (f *function) watchListing(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.deps.HTTP.Listings.WatchFunction(ctx, f.target.function, f.setListed)
		if ctx.Err() != nil {
			return
		}
		f.setListed(false)
		f.log.Error(err, "cannot watch whether gateways are listed")
		select {
		case <-ctx.Done():
		case <-time.After(rewatchPause):
		}
	}
}

func (f *function) setListed(listed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.demand.SetListed(time.Now(), listed)
}
