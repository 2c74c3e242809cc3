package eventbridge

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/filter"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// filterBytes are what compiled filters may take, as filter.Bytes counts it, and ownFilterBytes what that of each
	// Subscription may take beside: usual ones are less. A long one is a mebibyte.
	filterBytes    = 32 << 20
	ownFilterBytes = 16 << 10
)

// filtering runs the filters of all Subscriptions, within bounds of processor time and of memory.
type filtering struct {
	pool   *FilterPool
	memory *fair.Budget
	used   *prometheus.CounterVec
	waits  *prometheus.CounterVec
	log    logr.Logger
}

func newFiltering(registerer prometheus.Registerer, memory *fair.Budget, log logr.Logger) *filtering {
	subscription := []string{"namespace", "subscription"}
	f := &filtering{
		pool:   NewFilterPool(),
		memory: memory,
		log:    log,
		used: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_filter_seconds_total",
			Help: "Time that costly evaluations of a filter took. A Subscription gets a quarter of a processor at most.",
		}, subscription),
		waits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_filter_wait_seconds_total",
			Help: "Time that events waited for the turn of their Subscription's costly filter.",
		}, subscription),
	}
	registerer.MustRegister(f.used, f.waits, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rouse_eventbridge_filter_bytes", Help: "Memory that the compiled filters of Subscriptions take, about.",
	}, func() float64 { return float64(memory.Used()) }))
	return f
}

// filterShare is what the filter of a route has: a share of processor time, and one of memory.
type filterShare struct {
	*Lane

	memory *fair.Share
	taken  int64
}

// share returns the share of a route in a namespace. It has to be closed.
func (f *filtering) share(namespace string) *filterShare {
	return &filterShare{Lane: f.pool.Lane(namespace), memory: f.memory.Share(namespace)}
}

// Close gives everything back.
func (p *filterShare) Close() {
	p.memory.Release(p.taken)
	p.Lane.Close()
}

// keep is false where there is no memory for a compiled filter.
func (p *filterShare) keep(bytes int64) bool {
	p.memory.Release(p.taken)
	p.taken = p.memory.Acquire(bytes, bytes)
	return p.taken == bytes
}

// forget drops the series of a Subscription that is gone.
func (f *filtering) forget(s dispatch.Subscription) {
	f.used.DeleteLabelValues(s.Namespace, s.Name)
	f.waits.DeleteLabelValues(s.Namespace, s.Name)
}

// boundFilter is a filter with the lane that costly evaluations of it go through.
type boundFilter struct {
	filter      *filter.Filter // nil where there is no memory for it: then it is compiled for each event
	written     *eventingv1alpha2.Filter
	lane        *Lane
	stop        <-chan struct{} // closed when the Subscription is not delivered any more
	used, waits prometheus.Counter
}

// compile makes the filter of a route in the route's own share of time. The filter is nil without one, and not an
// interface that holds nil.
func (f *filtering) compile(route routing.Route, share *filterShare, stop <-chan struct{}) (dispatch.Filter, error) {
	if route.Filter == nil {
		return nil, nil //nolint:nilnil // no filter is no error
	}
	var compiled *filter.Filter
	var err error
	if stopped := share.Run(stop, func() bool {
		compiled, err = filter.Compile(route.Filter)
		return false
	}); stopped != nil {
		return nil, stopped
	}
	switch {
	case err != nil:
		return nil, err
	case compiled.AlwaysLight():
		return compiled, nil
	}
	of := subscriptionOf(route)
	if !share.keep(compiled.Bytes()) {
		f.log.Info("the filters of a namespace take much memory, this one is compiled for each event", "subscription", of.String(),
			"bytes", compiled.Bytes())
		compiled = nil
	}
	return &boundFilter{
		filter: compiled, written: route.Filter, lane: share.Lane, stop: stop,
		used: f.used.WithLabelValues(of.Namespace, of.Name), waits: f.waits.WithLabelValues(of.Namespace, of.Name),
	}, nil
}

// Match implements dispatch.Filter. Light work is done at once.
func (b *boundFilter) Match(ev *cloudevent.Event) (matches bool, err error) {
	if !b.enter(ev) {
		return b.matchQueued(ev, b.stop)
	}
	return b.matchInPlace(ev)
}

// soon is how long each event of a flood may wait for its filter.
const soon = 50 * time.Millisecond

// MatchSoon implements dispatch.PromptFilter.
func (b *boundFilter) MatchSoon(ev *cloudevent.Event) (matches bool, err error) {
	if b.enter(ev) {
		return b.matchInPlace(ev)
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	return b.matchQueued(ev, ctx.Done())
}

// enter reports whether the work looks light. If it does, matchInPlace has to follow.
func (b *boundFilter) enter(ev *cloudevent.Event) bool {
	return b.filter != nil && b.filter.WorkAhead(ev) <= filter.Light && b.lane.Enter()
}

func (b *boundFilter) matchInPlace(ev *cloudevent.Event) (matches bool, err error) {
	heavy := true
	defer func() { b.lane.Leave(heavy) }() // also when it panics
	matches, work, err := b.filter.Measure(ev)
	heavy = work > filter.Light
	return matches, err
}

// matchQueued waits in the Subscription's lane.
func (b *boundFilter) matchQueued(ev *cloudevent.Event, stop <-chan struct{}) (matches bool, err error) {
	asked := time.Now()
	stopped := b.lane.Run(stop, func() bool {
		began := time.Now()
		b.waits.Add(began.Sub(asked).Seconds())
		defer func() { b.used.Add(time.Since(began).Seconds()) }()
		compiled := b.filter
		if compiled == nil {
			if compiled, err = filter.Compile(b.written); err != nil {
				return true
			}
		}
		var work filter.Work
		matches, work, err = compiled.Measure(ev)
		return work > filter.Light || b.filter == nil
	})
	if stopped != nil {
		return false, dispatch.ErrNotFiltered
	}
	return matches, err
}

// ErrStopped means that the caller stopped before the work began.
var ErrStopped = errors.New("stopped before the work began")

// suspension is how long a tenant does nothing in place after light work of it turned out heavy.
const suspension = 10 * time.Second

// FilterPool hands out permits. It is safe for concurrent use.
type FilterPool struct {
	rests   bool  // a permit stays away for as long as it was used
	inPlace int32 // light work of one tenant at a time
	permits *fair.Pool

	mu      sync.Mutex
	tenants map[string]*tenant
}

// tenant shares the pool with others.
type tenant struct {
	name      string
	inPlace   atomic.Int32
	suspended atomic.Bool
	lanes     int // the pool's lock is held
}

// NewFilterPool makes a Pool for all processors that the process may use.
func NewFilterPool() *FilterPool { return newPool(runtime.GOMAXPROCS(0)) }

// newPool leaves half of the processors alone. Of a single one it leaves half of the time alone.
func newPool(processors int) *FilterPool {
	permits := int64(max(processors/2, 1))
	return &FilterPool{
		rests:   processors == 1,
		inPlace: int32(min(2*processors, 1024)),
		// A lane waits once, so the queue is bounded by the lanes. What is left over by others may all be used.
		permits: fair.NewPool(fair.Limits{Total: permits, PerKey: permits, Waiting: math.MaxInt64}),
		tenants: map[string]*tenant{},
	}
}

// Lane adds a lane to a tenant; Close takes it away.
func (p *FilterPool) Lane(name string) *Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		p.tenants[name] = t
	}
	t.lanes++
	return &Lane{pool: p, tenant: t, slot: make(chan struct{}, 1)}
}

func (p *FilterPool) leave(t *tenant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.lanes--; t.lanes == 0 {
		delete(p.tenants, t.name)
	}
}

// acquire waits for a permit.
func (p *FilterPool) acquire(t *tenant, stop <-chan struct{}) error {
	if err := p.permits.Acquire(stop, t.name, 1); err != nil {
		return ErrStopped
	}
	return nil
}

// finish charges a tenant for the time that it had a permit, and gives the permit on, of a single processor after a rest.
func (p *FilterPool) finish(t *tenant, took time.Duration) {
	if p.rests && took > 0 {
		time.AfterFunc(took, func() { p.release(t, took) })
		return
	}
	p.release(t, took)
}

func (p *FilterPool) release(t *tenant, took time.Duration) {
	p.permits.Charge(t.name, int64(took))
	p.permits.Release(t.name, 1)
}

// suspend keeps a tenant from working in place for a while.
func (t *tenant) suspend() {
	if t.suspended.CompareAndSwap(false, true) {
		time.AfterFunc(suspension, func() { t.suspended.Store(false) })
	}
}

const (
	// share is the part of one processor that a lane may use over time: one of so many.
	share = 4
	// burst is what a lane may use at once after a rest.
	burst = 250 * time.Millisecond
	// trusted is how much work in a row has to be light before it may be done in place.
	trusted = 8
)

// Lane is one source of work.
type Lane struct {
	pool   *FilterPool
	tenant *tenant
	slot   chan struct{} // holds one element while work of the lane waits or runs in Run
	light  atomic.Int32  // work in a row that was light, up to trusted

	paid time.Time // when what was used is paid back; only the holder of the slot touches it
}

// Close takes the lane from its tenant. Nothing may be done in it then.
func (l *Lane) Close() { l.pool.leave(l.tenant) }

// Enter reports whether light work may be done at once. If it may, Leave has to follow.
func (l *Lane) Enter() bool {
	if l.light.Load() < trusted || l.tenant.suspended.Load() {
		return false
	}
	if l.tenant.inPlace.Add(1) > l.pool.inPlace {
		l.tenant.inPlace.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter began, and says whether it was heavy after all.
func (l *Lane) Leave(heavy bool) {
	l.tenant.inPlace.Add(-1)
	if heavy {
		l.light.Store(0)
		l.tenant.suspend()
	}
}

// Run does work on the caller's goroutine once the lane has a permit. The work reports whether it was heavy. The caller may
// stop before it begins, then it is not done.
func (l *Lane) Run(stop <-chan struct{}, work func() (heavy bool)) error {
	select {
	case l.slot <- struct{}{}:
	case <-stop:
		return ErrStopped
	}
	defer func() { <-l.slot }()
	if !l.afford(stop) {
		return ErrStopped
	}
	if err := l.pool.acquire(l.tenant, stop); err != nil {
		return err
	}
	began, heavy := time.Now(), true
	defer func() { // also when it panics
		took := time.Since(began)
		l.pay(began, took)
		l.note(heavy)
		l.pool.finish(l.tenant, took)
	}()
	heavy = work()
	return nil
}

// afford waits until the lane has no more to pay back than a burst. It reports false when the caller stopped first.
func (l *Lane) afford(stop <-chan struct{}) bool {
	wait := time.Until(l.paid.Add(-(share - 1) * burst))
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

func (l *Lane) pay(began time.Time, took time.Duration) {
	if l.paid.Before(began) {
		l.paid = began
	}
	l.paid = l.paid.Add(share * took)
}

func (l *Lane) note(heavy bool) {
	if heavy {
		l.light.Store(0)
	} else if l.light.Load() < trusted {
		l.light.Add(1)
	}
}
