package trace

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

// ErrUnknown means that no record speaks of the event.
var ErrUnknown = errors.New("nobody remembers this event: it was not published here, or too much has happened since")

// Tree makes the tree of the chain that an event belongs to. Of several events with the id it is the last one's.
func Tree(records []journal.Record, id string) (Node, error) {
	x := newIndex(records)
	known := x.byID[id]
	if len(known) == 0 {
		return Node{}, fmt.Errorf("event %q: %w", id, ErrUnknown)
	}
	asked := slices.MaxFunc(known, func(a, b *event) int { return a.began().Compare(b.began()) })
	root, passed := asked, map[*event]bool{asked: true}
	for root.parent != nil && !passed[root.parent] {
		root = root.parent
		passed[root] = true
	}
	g := grower{asked: asked, seen: map[*event]bool{}}
	return g.grow(root), nil
}

// grower makes each event's node once.
type grower struct {
	asked *event
	seen  map[*event]bool
}

func (g grower) grow(e *event) Node {
	g.seen[e] = true
	node := Node{
		ID: e.id, Source: e.source, Type: e.name, Trace: e.trace, Stored: e.stored(), Asked: e == g.asked,
		ByTrace: e.byTrace, Deliveries: deliveries(e),
	}
	for _, child := range e.children {
		if g.seen[child] {
			continue
		}
		grown := g.grow(child)
		if i := running(node.Deliveries, child.began()); i >= 0 {
			node.Deliveries[i].Children = append(node.Deliveries[i].Children, grown)
		} else {
			node.Children = append(node.Children, grown)
		}
	}
	return node
}

// running is the delivery that ran at a time, or else the only one that had begun; -1 when that is none or not clear.
func running(deliveries []Delivery, at time.Time) int {
	ran, begun := []int{}, []int{}
	for i, d := range deliveries {
		for _, a := range d.Attempts {
			if a.Redriven || a.Began.After(at) {
				continue
			}
			begun = append(begun, i)
			if !at.After(a.Began.Add(time.Duration(a.Took))) {
				ran = append(ran, i)
			}
		}
	}
	for _, found := range [][]int{ran, begun} {
		if found = slices.Compact(found); len(found) == 1 {
			return found[0]
		}
		if len(found) > 1 {
			return -1
		}
	}
	return -1
}

// deliveries are an event's, in the order of their first records.
func deliveries(e *event) []Delivery {
	var all []Delivery
	for _, r := range e.records {
		if r.Kind == journal.Stored {
			continue
		}
		i := slices.IndexFunc(all, func(d Delivery) bool {
			return d.Namespace == r.Namespace && d.Subscription == r.Subscription && d.DeadLetter == r.DeadLetter
		})
		if i < 0 {
			i = len(all)
			all = append(all, Delivery{Namespace: r.Namespace, Subscription: r.Subscription, DeadLetter: r.DeadLetter})
			if stored := e.stored(); !stored.IsZero() && !r.Began.IsZero() {
				all[i].Waited = Duration(max(r.Began.Sub(stored), 0)) // clocks differ
			}
		}
		all[i].add(r)
	}
	return all
}

func (d *Delivery) add(r journal.Record) {
	if r.Sink != "" {
		d.Sink = r.Sink
	}
	d.Reason, d.Message, d.Due = r.Reason, r.Message, time.Time{}
	a := Attempt{
		Number: r.Attempt, Began: r.Began, Took: Duration(r.Took), Status: r.Status, Reason: r.Reason, Message: r.Message,
	}
	switch r.Kind {
	case journal.Delivered:
		d.State = Delivered
	case journal.Filtered:
		d.State = Filtered
		return // no sink was called
	case journal.DeadLettered:
		d.State = DeadLettered
	case journal.Redriven:
		d.State, a.Redriven, a.Began = Redriven, true, r.Time
	default:
		d.State = Retrying
		if r.Due != nil {
			d.Due, a.Due = *r.Due, *r.Due
		}
	}
	d.Attempts = append(d.Attempts, a)
}
