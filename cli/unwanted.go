package cli

import (
	"context"
	"fmt"
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/cli/event"
	"github.com/rouse-run/rouse/cli/output"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// interestTimeout bounds the request for the Subscriptions: the events are stored, and the user waits.
	interestTimeout = 3 * time.Second
	// notedKinds is how many kinds of events that no Subscription takes are named.
	notedKinds = 10
)

// noteUnwanted writes into the results which stored events no Subscription takes. A user who may not list the
// Subscriptions of all namespaces gets no notes, which is no failure of a publish.
func noteUnwanted(ctx context.Context, conn *target.Connection, results []event.Result) {
	ctx, cancel := context.WithTimeout(ctx, interestTimeout)
	defer cancel()
	all, err := conn.Subscriptions(ctx, "")
	if err != nil {
		return
	}
	specs := make([]eventingv1alpha2.SubscriptionSpec, 0, len(all))
	for _, sub := range all {
		specs = append(specs, eventingv1alpha2.SubscriptionSpec{
			Source: sub.Source, Types: sub.Types, TypeMatching: eventingv1alpha2.TypeMatching(sub.TypeMatching),
		})
	}
	wanted, known := routing.InterestOf(specs), map[routing.EventKind]string{}
	for i := range results {
		r := &results[i]
		if !r.Stored() {
			continue
		}
		kind := routing.EventKind{Type: r.Type, Source: r.Source}
		text, done := known[kind]
		if !done {
			text = wanted.Explain(kind)
			known[kind] = text
		}
		r.Note = text
	}
}

// printUnwanted writes a line for each kind of events that no Subscription takes.
func (s *session) printUnwanted(results []event.Result) {
	var order []routing.EventKind
	count, texts := map[routing.EventKind]int{}, map[routing.EventKind]string{}
	for _, r := range results {
		if r.Note == "" {
			continue
		}
		kind := routing.EventKind{Type: r.Type, Source: r.Source}
		if count[kind]++; count[kind] == 1 {
			order, texts[kind] = append(order, kind), r.Note
		}
	}
	for i, kind := range order {
		if i == notedKinds {
			s.note("and %d other kinds of events that no Subscription takes", len(order)-notedKinds)
			return
		}
		times := ""
		if count[kind] > 1 {
			times = fmt.Sprintf(" (%d events)", count[kind])
		}
		s.note("%s%s: stored, but %s", output.Clean(kind.String()), times, output.Clean(texts[kind]))
	}
}
