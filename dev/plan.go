package dev

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// kind of the objects, as Problems name it.
const kind = "Subscription"

// bridgeTimeout is the bridge's own.
const bridgeTimeout = 190 * time.Second

// entry is a Subscription that is served.
type entry struct {
	route routing.Route
	spec  eventingv1alpha2.SubscriptionSpec
}

// wanted is what the folder asks for.
type wanted struct {
	entries  map[types.NamespacedName]entry
	problems []manifest.Problem
	interest routing.Interest
}

// want reads a set and its problems. What was served before and cannot be read now goes on as it was.
func want(set manifest.Set, problems []manifest.Problem, before map[types.NamespacedName]entry) wanted {
	w := wanted{entries: map[types.NamespacedName]entry{}, problems: problems}
	for key, known := range before {
		if w.doubtful(key) {
			w.entries[key] = known
		}
	}
	silences := map[types.NamespacedName]time.Duration{}
	for _, fn := range set.Functions {
		if fn.Timeout() > 0 {
			silences[types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}] = fn.Silence()
		}
	}
	for _, sub := range set.Subscriptions {
		route := sub.Route
		route.Delivery.Timeout = answerWithin(route, silences[route.Service])
		w.entries[sub.Route.Subscription] = entry{route: route, spec: sub.Spec}
	}
	w.interest = routing.InterestOf(w.specs())
	return w
}

// answerWithin is how long a delivery waits for an answer. A Function with a time limit of its own that has given none by then
// is about to be ended, and the delivery shall know that its time was over. 0 leaves it to the bridge, which waits a little
// longer than any Function without a limit may take.
func answerWithin(route routing.Route, silence time.Duration) time.Duration {
	if silence == 0 || silence >= bridgeTimeout || (route.Delivery.Timeout > 0 && route.Delivery.Timeout < silence) {
		return route.Delivery.Timeout
	}
	return silence
}

// doubtful reports whether a Subscription that was not read may be in the folder nevertheless.
func (w wanted) doubtful(key types.NamespacedName) bool {
	return slices.ContainsFunc(w.problems, func(p manifest.Problem) bool { return p.Concerns(kind, key.Namespace, key.Name) })
}

// strays are the consumers that no Subscription needs any more.
func (w wanted) strays(consumers []broker.Consumer, deadLetters bool) []broker.Consumer {
	var found []broker.Consumer
	for _, consumer := range consumers {
		key, ours := broker.SubscriptionOf(consumer)
		known, served := w.entries[key]
		needed := served && (!deadLetters || known.route.DeadLetters != nil) || !served && w.doubtful(key)
		if ours && !needed {
			found = append(found, consumer)
		}
	}
	return found
}

// consumers are those that a new stream needs before its first event.
func (w wanted) consumers(context.Context) ([]broker.Consumer, error) {
	consumers := make([]broker.Consumer, 0, len(w.entries))
	for _, e := range w.entries {
		consumers = append(consumers, broker.ConsumerOf(e.route))
	}
	return consumers, nil
}

// specs are those of all, by name.
func (w wanted) specs() []eventingv1alpha2.SubscriptionSpec {
	specs := make([]eventingv1alpha2.SubscriptionSpec, 0, len(w.entries))
	for _, e := range w.sorted() {
		specs = append(specs, e.spec)
	}
	return specs
}

// sorted are the entries by name.
func (w wanted) sorted() []entry {
	return slices.SortedFunc(maps.Values(w.entries), func(a, b entry) int {
		return cmp.Compare(a.route.Subscription.String(), b.route.Subscription.String())
	})
}
