package eventbridge

import (
	"context"
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
