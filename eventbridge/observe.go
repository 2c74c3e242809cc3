package eventbridge

import (
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// storedRecord returns the record of an event that the stream has just confirmed.
func storedRecord(ev *cloudevent.Event, began time.Time) journal.Record {
	now := time.Now()
	r := journal.Record{Time: now, Kind: journal.Stored, Began: began, Took: now.Sub(began)}
	identify(&r, ev)
	return r
}

// recorder returns a function that adds the outcomes of one route's events to the journal; nil without a journal.
func (d *dispatchers) recorder(route routing.Route) func(dispatch.Message, dispatch.Settled) {
	if d.deps.Journal == nil {
		return nil
	}
	to := journal.Record{
		Namespace: route.Subscription.Namespace, Subscription: route.Subscription.Name,
		Sink: sinkName(route), DeadLetter: route.OfDeadLetters,
	}
	return func(msg dispatch.Message, s dispatch.Settled) {
		if r, ok := settledRecord(to, s); ok {
			r.Stored = msg.Stored()
			d.deps.Journal.Add(r)
		}
	}
}

// settledRecord completes the record of a delivery. It returns false for a message that was returned: nothing happened
// to it.
func settledRecord(r journal.Record, s dispatch.Settled) (journal.Record, bool) {
	r.Time, r.Began, r.Took = s.Began.Add(s.Took), s.Began, s.Took
	r.Attempt, r.Status = s.Attempt, s.Status
	r.Reason, r.Message = string(s.Reason), s.Reason.Message()
	switch s.Outcome {
	case dispatch.Ack:
		r.Kind = journal.Delivered
	case dispatch.Skip:
		r.Kind, r.Attempt = journal.Filtered, 0
	case dispatch.Retry:
		due := r.Time.Add(s.Delay)
		r.Kind, r.Due = journal.Retry, &due
	case dispatch.Reject:
		r.Kind = journal.DeadLettered
	default:
		return r, false
	}
	if s.Event != nil {
		identify(&r, s.Event)
	}
	return r, true
}

func identify(r *journal.Record, ev *cloudevent.Event) {
	r.ID, r.Source, r.Type = ev.ID, ev.Source, ev.Type
	r.Cause, r.Trace = ev.Extension(dispatch.ExtensionCause), tracecontext.ID(ev)
}

// sinkName returns the name of a sink for records, without credentials.
func sinkName(route routing.Route) string {
	if !route.External {
		return route.Service.String()
	}
	u, err := url.Parse(route.Sink)
	if err != nil {
		return ""
	}
	return u.Host
}

// kymaCounts counts deliveries under the metric names of Kyma's dashboards.
type kymaCounts struct {
	metrics *dispatch.KymaMetrics

	mu    sync.RWMutex
	bound map[types.NamespacedName]*kymaRoute
}

// kymaRoute counts for one Subscription in its current state.
type kymaRoute struct {
	sink   string
	types  []routing.TypeMapping
	counts *dispatch.KymaSubscription
}

func newKymaCounts(deps Deps) *kymaCounts {
	return &kymaCounts{
		metrics: dispatch.NewKymaMetrics(deps.Registry, deps.Store.Connected),
		bound:   map[types.NamespacedName]*kymaRoute{},
	}
}

// apply starts counting for routes that are new or changed, and forgets removed ones.
func (k *kymaCounts) apply(routes []routing.Route) {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := k.bound
	k.bound = make(map[types.NamespacedName]*kymaRoute, len(routes))
	for _, route := range routes {
		before := gone[route.Subscription]
		delete(gone, route.Subscription)
		if before == nil || before.sink != route.Sink || !slices.Equal(before.types, route.Types) {
			before = k.bind(route)
		}
		k.bound[route.Subscription] = before
	}
	for name := range gone {
		k.metrics.Forget(dispatch.Subscription{Namespace: name.Namespace, Name: name.Name})
	}
}

func (k *kymaCounts) bind(route routing.Route) *kymaRoute {
	bound := &kymaRoute{sink: route.Sink, types: route.Types}
	named := make([]dispatch.KymaType, 0, len(route.Types))
	for _, t := range route.Types {
		named = append(named, dispatch.KymaType{Original: t.Original, Clean: t.Clean, Consumer: t.ConsumerName})
	}
	bound.counts = k.metrics.Bind(subscriptionOf(route), routing.ShownSink(route.Sink), named)
	return bound
}

// observer returns a function that counts the attempts of one Subscription.
func (k *kymaCounts) observer(name types.NamespacedName) func(dispatch.Message, *cloudevent.Event, dispatch.Answer, time.Duration) {
	return func(msg dispatch.Message, _ *cloudevent.Event, answer dispatch.Answer, took time.Duration) {
		k.mu.RLock()
		route := k.bound[name]
		k.mu.RUnlock()
		if route != nil {
			route.observe(msg.Subject(), answer, took)
		}
	}
}

func (r *kymaRoute) observe(subject string, answer dispatch.Answer, took time.Duration) {
	for _, t := range r.types {
		if t.Matches(subject) {
			r.counts.Attempted(t.Original, answer.Status, took)
			return
		}
	}
}
