package subscriptions

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// kind of the objects, as Problems name it.
const kind = "Subscription"

// entry is a Subscription that is served.
type entry struct {
	route routing.Route
	spec  eventingv1alpha2.SubscriptionSpec
}

// wanted is what the folder asks for.
type wanted struct {
	entries  map[types.NamespacedName]entry
	problems []manifest.Problem
}

// want reads a set and its problems. What was served before and cannot be read now goes on as it was.
func want(set manifest.Set, problems []manifest.Problem, before map[types.NamespacedName]entry) wanted {
	w := wanted{entries: map[types.NamespacedName]entry{}, problems: problems}
	for key, known := range before {
		if w.doubtful(key) {
			w.entries[key] = known
		}
	}
	for _, sub := range set.Subscriptions {
		w.entries[sub.Route.Subscription] = entry{route: sub.Route, spec: sub.Spec}
	}
	return w
}

// doubtful tells whether a Subscription that was not read may be in the folder nevertheless.
func (w wanted) doubtful(key types.NamespacedName) bool {
	return slices.ContainsFunc(w.problems, func(p manifest.Problem) bool { return p.Concerns(kind, key.Namespace, key.Name) })
}

// strays are the consumers that nobody needs any more.
func (w wanted) strays(consumers []broker.Consumer, letters bool) []broker.Consumer {
	var found []broker.Consumer
	for _, consumer := range consumers {
		key, ours := broker.SubscriptionOf(consumer)
		known, served := w.entries[key]
		needed := served && (!letters || known.route.DeadLetters != nil) || !served && w.doubtful(key)
		if ours && !needed {
			found = append(found, consumer)
		}
	}
	return found
}

// sorted are the entries by name.
func (w wanted) sorted() []entry {
	return slices.SortedFunc(maps.Values(w.entries), func(a, b entry) int {
		return cmp.Compare(a.route.Subscription.String(), b.route.Subscription.String())
	})
}
