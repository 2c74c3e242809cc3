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
	// filterBytes bounds the memory of all compiled filters, as filter.Bytes counts it, and ownFilterBytes is what each
	// Subscription may use in addition: enough for usual filters. A long filter takes a mebibyte.
	filterBytes    = 32 << 20
	ownFilterBytes = 16 << 10
)

// filters evaluates the filters of all Subscriptions within bounds of processor time and memory.
type filters struct {
	pool   *filterPool
	memory *fair.Budget
	used   *prometheus.CounterVec
	waits  *prometheus.CounterVec
	log    logr.Logger
}

func newFilters(registerer prometheus.Registerer, memory *fair.Budget, log logr.Logger) *filters {
	subscription := []string{"namespace", "subscription"}
	f := &filters{
		pool:   newFilterPool(),
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

// filterShare is the processor time and the memory of a route's filter.
type filterShare struct {
	*filterLane

	memory *fair.Share
	taken  int64
}

// share returns the share of a route in a namespace. The caller closes it.
func (f *filters) share(namespace string) *filterShare {
	return &filterShare{filterLane: f.pool.lane(namespace), memory: f.memory.Share(namespace)}
}

// Close releases the memory and the lane.
func (p *filterShare) Close() {
	p.memory.Release(p.taken)
	p.filterLane.Close()
}

// keep reports whether there is memory for a compiled filter.
func (p *filterShare) keep(bytes int64) bool {
	p.memory.Release(p.taken)
	p.taken = p.memory.Acquire(bytes, bytes)
	return p.taken == bytes
}

// forget drops the series of a removed Subscription.
func (f *filters) forget(s dispatch.Subscription) {
	f.used.DeleteLabelValues(s.Namespace, s.Name)
	f.waits.DeleteLabelValues(s.Namespace, s.Name)
}

// boundFilter is a filter and the lane in which costly evaluations of it run.
type boundFilter struct {
	filter      *filter.Filter // nil without memory for it: it is compiled for each event
	written     *eventingv1alpha2.Filter
	lane        *filterLane
	stop        <-chan struct{} // closed when the Subscription is no longer delivered
	used, waits prometheus.Counter
}

// compile compiles the filter of a route in the route's share of processor time. It returns a nil interface for a route
// without a filter.
func (f *filters) compile(route routing.Route, share *filterShare, stop <-chan struct{}) (dispatch.Filter, error) {
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
		f.log.Info("the namespace's compiled filters exceed their memory, compiling this filter for each event", "subscription", of.String(),
			"bytes", compiled.Bytes())
		compiled = nil
	}
	return &boundFilter{
		filter: compiled, written: route.Filter, lane: share.filterLane, stop: stop,
		used: f.used.WithLabelValues(of.Namespace, of.Name), waits: f.waits.WithLabelValues(of.Namespace, of.Name),
	}, nil
}

// Match implements dispatch.Filter. Light work runs in place.
func (b *boundFilter) Match(ev *cloudevent.Event) (matches bool, err error) {
	if !b.enter(ev) {
		return b.matchQueued(ev, b.stop)
	}
	return b.matchInPlace(ev)
}

// soon bounds how long each event of a flood waits for its filter.
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

// enter reports whether the work looks light. If it does, the caller continues with matchInPlace.
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

// errStopped means that the caller stopped before the work began.
var errStopped = errors.New("stopped before the work began")

// suspension is how long a tenant does no work in place after its light work turned out heavy.
const suspension = 10 * time.Second

// filterPool issues permits for costly work. It is safe for concurrent use.
type filterPool struct {
	rests   bool  // a permit rests for as long as it was used
	inPlace int32 // bound of concurrent light work per tenant
	permits *fair.Pool

	mu      sync.Mutex
	tenants map[string]*tenant
}

// tenant is a namespace that shares the pool with others.
type tenant struct {
	name      string
	inPlace   atomic.Int32
	suspended atomic.Bool
	lanes     int // guarded by the pool's mutex
}

// newFilterPool returns a pool for all processors that the process may use.
func newFilterPool() *filterPool { return newFilterPoolFor(runtime.GOMAXPROCS(0)) }

// newFilterPoolFor leaves half of the processors unused. Of a single one it leaves half of the time unused.
func newFilterPoolFor(processors int) *filterPool {
	permits := int64(max(processors/2, 1))
	return &filterPool{
		rests:   processors == 1,
		inPlace: int32(min(2*processors, 1024)),
		// A lane waits once, so the lanes bound the queue. A tenant may use what others leave.
		permits: fair.NewPool(fair.Limits{Total: permits, PerKey: permits, Waiting: math.MaxInt64}),
		tenants: map[string]*tenant{},
	}
}

// lane adds a lane to a tenant; Close removes it.
func (p *filterPool) lane(name string) *filterLane {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		p.tenants[name] = t
	}
	t.lanes++
	return &filterLane{pool: p, tenant: t, slot: make(chan struct{}, 1)}
}

func (p *filterPool) leave(t *tenant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.lanes--; t.lanes == 0 {
		delete(p.tenants, t.name)
	}
}

// acquire waits for a permit.
func (p *filterPool) acquire(t *tenant, stop <-chan struct{}) error {
	if err := p.permits.Acquire(stop, t.name, 1); err != nil {
		return errStopped
	}
	return nil
}

// finish charges a tenant for the time that it held a permit and releases the permit, on a single processor after a
// rest.
func (p *filterPool) finish(t *tenant, took time.Duration) {
	if p.rests && took > 0 {
		time.AfterFunc(took, func() { p.release(t, took) })
		return
	}
	p.release(t, took)
}

func (p *filterPool) release(t *tenant, took time.Duration) {
	p.permits.Charge(t.name, int64(took))
	p.permits.Release(t.name, 1)
}

// suspend disables work in place for a tenant for a while.
func (t *tenant) suspend() {
	if t.suspended.CompareAndSwap(false, true) {
		time.AfterFunc(suspension, func() { t.suspended.Store(false) })
	}
}

const (
	// share is the divisor of one processor that a lane may use over time.
	share = 4
	// burst is the processor time that a lane may use at once after a rest.
	burst = 250 * time.Millisecond
	// trusted is how many light evaluations in a row are needed before work runs in place.
	trusted = 8
)

// filterLane is one source of work: the filter of one Subscription.
type filterLane struct {
	pool   *filterPool
	tenant *tenant
	slot   chan struct{} // holds one element while work of the lane waits or runs in Run
	light  atomic.Int32  // light evaluations in a row, up to trusted

	paid time.Time // when the used time is paid back; guarded by slot
}

// Close removes the lane from its tenant. The lane must not be used afterwards.
func (l *filterLane) Close() { l.pool.leave(l.tenant) }

// Enter reports whether light work may run in place. If so, the caller must call Leave.
func (l *filterLane) Enter() bool {
	if l.light.Load() < trusted || l.tenant.suspended.Load() {
		return false
	}
	if l.tenant.inPlace.Add(1) > l.pool.inPlace {
		l.tenant.inPlace.Add(-1)
		return false
	}
	return true
}

// Leave ends what Enter began. heavy reports that the work was not light after all.
func (l *filterLane) Leave(heavy bool) {
	l.tenant.inPlace.Add(-1)
	if heavy {
		l.light.Store(0)
		l.tenant.suspend()
	}
}

// Run does work on the caller's goroutine once the lane has a permit. The work reports whether it was heavy. Run
// returns errStopped when stop is closed before the work begins.
func (l *filterLane) Run(stop <-chan struct{}, work func() (heavy bool)) error {
	select {
	case l.slot <- struct{}{}:
	case <-stop:
		return errStopped
	}
	defer func() { <-l.slot }()
	if !l.afford(stop) {
		return errStopped
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

// afford waits until the lane's debt is at most a burst. It returns false when stop is closed first.
func (l *filterLane) afford(stop <-chan struct{}) bool {
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

func (l *filterLane) pay(began time.Time, took time.Duration) {
	if l.paid.Before(began) {
		l.paid = began
	}
	l.paid = l.paid.Add(share * took)
}

func (l *filterLane) note(heavy bool) {
	if heavy {
		l.light.Store(0)
	} else if l.light.Load() < trusted {
		l.light.Add(1)
	}
}
