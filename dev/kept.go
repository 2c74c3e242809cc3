package dev

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse/dev/view"
	"github.com/rouse-run/rouse/eventbridge/admin"
)

// namedSubscriptions is how many of those with pending events are named.
const namedSubscriptions = 3

// countTimeout bounds how long the end waits to tell what is left; NATS of this process takes milliseconds.
const countTimeout = 5 * time.Second

// countKept asks, once nothing is delivered any more, what is left.
func (m *mode) countKept(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
	defer cancel()
	all, err := m.store.Subscriptions(ctx)
	if err != nil {
		m.log.Info("cannot count what is kept", "reason", err.Error())
		m.kept = fmt.Sprintf("stopped; what was not delivered is kept in %s: the next rouse dev of this folder goes on with it, --fresh throws it away", m.state)
		return
	}
	m.kept = keptOf(all, m.state)
}

// keptOf is a text for people: what is left, where it is, and what may be done about it.
func keptOf(all []admin.Subscription, folder string) string {
	var pending, deadLetters uint64
	var waiting []admin.Subscription
	for _, sub := range all {
		deadLetters += sub.DeadLetters
		if n := pendingOf(sub); n > 0 {
			pending += n
			waiting = append(waiting, sub)
		}
	}
	var parts []string
	if pending > 0 {
		slices.SortFunc(waiting, func(a, b admin.Subscription) int {
			return cmp.Or(cmp.Compare(pendingOf(b), pendingOf(a)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		parts = append(parts, plural(pending, "event is", "events are")+" pending ("+named(waiting)+")")
	}
	if deadLetters > 0 {
		parts = append(parts, plural(deadLetters, "dead letter", "dead letters"))
	}
	if len(parts) == 0 {
		return "stopped; nothing is pending"
	}
	return fmt.Sprintf("stopped; kept in %s: %s; the next rouse dev of this folder goes on with that, --fresh throws it away",
		folder, strings.Join(parts, ", "))
}

func named(waiting []admin.Subscription) string {
	var texts []string
	for _, sub := range waiting[:min(len(waiting), namedSubscriptions)] {
		texts = append(texts, fmt.Sprintf("%d for %s/%s", pendingOf(sub), sub.Namespace, sub.Name))
	}
	if over := len(waiting) - namedSubscriptions; over > 0 {
		texts = append(texts, fmt.Sprintf("the rest for %d others", over))
	}
	return strings.Join(texts, ", ")
}

// pendingOf is what is still to be delivered. Leftovers of a Subscription that is gone are not.
func pendingOf(sub admin.Subscription) uint64 {
	if !sub.Consumer {
		return 0
	}
	return sub.Backlog + sub.AckPending + sub.WaitingRetries
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// printKept prints the last line. A run with Once that came to its end has had its own.
func (m *mode) printKept(ctx context.Context) error {
	switch {
	case !m.options.Once:
	case ctx.Err() != nil:
		m.kept = "stopped before its end; with --once nothing is kept"
	default:
		return nil
	}
	return view.PrintLine(m.options.Out, m.kept)
}
