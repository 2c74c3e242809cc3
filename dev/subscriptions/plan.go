package subscriptions

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// entry is a Subscription that is served.
type entry struct {
	route routing.Route
	spec  eventingv1alpha2.SubscriptionSpec
}

// wanted is what the folder asks for.
type wanted struct {
	entries map[types.NamespacedName]entry
	// doubtful are Subscriptions that may be in the folder and cannot be read; all of them when everyone is.
	doubtful map[types.NamespacedName]bool
	everyone bool
}

// objectKind begins the Object of a Problem that is about a Subscription.
const objectKind = "Subscription "

// want reads a set and its problems. What was served before and cannot be read now goes on as it was.
func want(set manifest.Set, problems []manifest.Problem, before map[types.NamespacedName]entry) wanted {
	w := wanted{entries: map[types.NamespacedName]entry{}, doubtful: map[types.NamespacedName]bool{}}
	for _, problem := range problems {
		name, about := strings.CutPrefix(problem.Object, objectKind)
		switch {
		case problem.Warning:
		case about:
			namespace, name, _ := strings.Cut(name, "/")
			w.doubtful[types.NamespacedName{Namespace: namespace, Name: name}] = true
		case problem.Object == "": // of a file, whose objects nobody knows
			w.everyone = true
		}
	}
	for key, known := range before {
		if w.everyone || w.doubtful[key] {
			w.entries[key] = known
		}
	}
	for _, sub := range set.Subscriptions {
		w.entries[sub.Route.Subscription] = entry{route: sub.Route, spec: sub.Spec}
	}
	return w
}

// strays are the consumers that nobody needs any more.
func (w wanted) strays(consumers []broker.Consumer, letters bool) []broker.Consumer {
	var found []broker.Consumer
	for _, consumer := range consumers {
		key, ours := broker.SubscriptionOf(consumer)
		known, served := w.entries[key]
		switch {
		case !ours, w.everyone && !served, w.doubtful[key] && !served:
		case served && (!letters || known.route.DeadLetters != nil):
		default:
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
