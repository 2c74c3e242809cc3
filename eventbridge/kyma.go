package eventbridge

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// kymaCounts counts deliveries under the names that Kyma's dashboards ask for.
type kymaCounts struct {
	metrics *dispatch.KymaMetrics

	mu    sync.RWMutex
	bound map[types.NamespacedName]*kymaRoute
}

// kymaRoute counts for one Subscription as it is now.
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

// apply begins to count for the routes that are new or have other types, and forgets those that are gone.
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

// observer counts the attempts of one Subscription.
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
