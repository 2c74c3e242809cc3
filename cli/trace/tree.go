package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Node is an event with its deliveries and the events that they caused.
type Node struct {
	ID     string    `json:"id"`
	Source string    `json:"source,omitempty"`
	Type   string    `json:"type,omitempty"` // empty for an event that is known only as a cause
	Trace  string    `json:"trace,omitempty"`
	Stored time.Time `json:"stored,omitzero"` // zero when unknown
	Asked  bool      `json:"asked,omitempty"` // the event that the tree was requested for
	// ByTrace reports that the cause is unknown and the event was placed by its trace and its time.
	ByTrace    bool       `json:"byTrace,omitempty"`
	Deliveries []Delivery `json:"deliveries,omitempty"`
	// Children are events caused by this one that cannot be assigned to a single delivery.
	Children []Node `json:"children,omitempty"`
}

// State is the state of a delivery.
type State string

// The states of a delivery.
const (
	Delivered    State = "delivered"
	Filtered     State = "filtered"
	DeadLettered State = "deadlettered"
	Retrying     State = "retrying" // pending: another attempt follows
	Redriven     State = "redriven" // pending: the dead letter is being redelivered
)

// Pending reports whether the delivery is not settled.
func (s State) Pending() bool { return s == Retrying || s == Redriven }

// Delivery is the delivery of an event to a Subscription.
type Delivery struct {
	Namespace    string `json:"namespace"`
	Subscription string `json:"subscription"`
	Sink         string `json:"sink,omitempty"`
	DeadLetter   bool   `json:"deadLetter,omitempty"` // the event's dead letter, to the sink for those

	State    State     `json:"state"`
	Reason   string    `json:"reason,omitempty"`  // a code
	Message  string    `json:"message,omitempty"` // the reason as a sentence
	Due      time.Time `json:"due,omitzero"`      // of the next attempt
	Waited   Duration  `json:"waited,omitempty"`  // from stored to the first attempt
	Attempts []Attempt `json:"attempts,omitempty"`
	Children []Node    `json:"children,omitempty"`
}

// Attempt is a call of the sink, or a redrive.
type Attempt struct {
	Number   int       `json:"number,omitempty"` // 0 of a redrive
	Began    time.Time `json:"began,omitzero"`
	Took     Duration  `json:"took,omitempty"`
	Status   int       `json:"status,omitempty"`
	Reason   string    `json:"reason,omitempty"`  // why it failed: a code
	Message  string    `json:"message,omitempty"` // the reason as a sentence
	Due      time.Time `json:"due,omitzero"`      // of the next attempt
	Redriven bool      `json:"redriven,omitempty"`
}

// Duration is a time.Duration that is encoded in seconds.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'f', -1, 64), nil
}

// ErrUnknown is returned when no record mentions the event.
var ErrUnknown = errors.New("no record of this event: it was not published here, or its records were dropped since")

// Tree returns the tree of the chain that an event belongs to. Of several events with the id it takes the last one.
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

// grower builds the node of each event once.
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

// running returns the delivery that ran at a time, or else the only one that had begun; -1 for none, or when ambiguous.
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

// deliveries returns the deliveries of an event, in the order of their first records.
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

// key identifies an event: an id is unique within its source.
type key struct{ source, id string }

// event holds the records of an event.
type event struct {
	key
	name    string // its type
	trace   string
	cause   string
	records []journal.Record // in the order of their times

	parent   *event
	byTrace  bool
	children []*event
}

// index holds every event that the records mention.
type index struct {
	events map[key]*event
	byID   map[string][]*event // in the order of their first records
}

func newIndex(records []journal.Record) index {
	x := index{events: map[key]*event{}, byID: map[string][]*event{}}
	records = once(records)
	for _, r := range records {
		if r.ID == "" || r.Kind == journal.Skipped {
			continue
		}
		e := x.event(key{r.Source, r.ID})
		e.name, e.trace, e.cause = cmp.Or(e.name, r.Type), cmp.Or(e.trace, r.Trace), cmp.Or(e.cause, r.Cause)
		e.records = append(e.records, r)
	}
	for _, e := range x.sorted() {
		if e.cause != "" && len(x.byID[e.cause]) == 0 {
			x.event(key{id: e.cause}).trace = e.trace // known by mention
		}
	}
	x.link()
	return x
}

func (x index) event(k key) *event {
	e := x.events[k]
	if e == nil {
		e = &event{key: k}
		x.events[k] = e
		x.byID[k.id] = append(x.byID[k.id], e)
	}
	return e
}

// once returns the records sorted by time, without duplicates.
func once(records []journal.Record) []journal.Record {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b journal.Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(rank(a.Kind), rank(b.Kind)), compare(a, b))
	})
	return slices.CompactFunc(records, func(a, b journal.Record) bool {
		return a.Time.Equal(b.Time) && a.Kind == b.Kind && a.Count == b.Count && compare(a, b) == 0
	})
}

// compare orders records, also those of the same time.
func compare(a, b journal.Record) int {
	return cmp.Or(
		strings.Compare(a.ID, b.ID), strings.Compare(a.Source, b.Source), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Subscription, b.Subscription), cmp.Compare(a.Attempt, b.Attempt), boolean(a.DeadLetter)-boolean(b.DeadLetter),
	)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rank returns the position of a kind in the life of an event.
func rank(kind journal.Kind) int { return slices.Index(journal.Kinds(), kind) }

// sorted returns the events by time.
func (x index) sorted() []*event {
	all := make([]*event, 0, len(x.events))
	for _, e := range x.events {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *event) int {
		return cmp.Or(a.began().Compare(b.began()), strings.Compare(a.id, b.id), strings.Compare(a.source, b.source))
	})
	return all
}

// link sets the parents of events.
func (x index) link() {
	sorted := x.sorted()
	for _, e := range sorted {
		if e.parent = x.cause(e); e.parent == nil && e.cause == "" {
			e.parent = nearest(sorted, e)
			e.byTrace = e.parent != nil
		}
		if e.parent != nil {
			e.parent.children = append(e.parent.children, e)
		}
	}
}

// cause returns the event that caused e: of several with the id the one with the same trace.
func (x index) cause(e *event) *event {
	var found *event
	for _, candidate := range x.byID[e.cause] {
		if candidate != e && (found == nil || candidate.trace == e.trace && found.trace != e.trace) {
			found = candidate
		}
	}
	return found
}

// nearest returns the event of the same trace whose delivery was the last to begin before e.
func nearest(all []*event, e *event) *event {
	if e.trace == "" {
		return nil
	}
	var found *event
	var last time.Time
	for _, candidate := range all {
		if candidate == e || candidate.trace != e.trace {
			continue
		}
		for _, r := range candidate.records {
			if isAttempt(r.Kind) && !r.Began.IsZero() && !r.Began.After(e.began()) && r.Began.After(last) {
				found, last = candidate, r.Began
			}
		}
	}
	return found
}

func isAttempt(kind journal.Kind) bool {
	return kind == journal.Delivered || kind == journal.Retry || kind == journal.DeadLettered
}

// stored returns the time at which the event was stored, zero when unknown.
func (e *event) stored() time.Time {
	for _, r := range e.records {
		if r.Kind == journal.Stored {
			return r.Time
		}
	}
	for _, r := range e.records {
		if !r.Stored.IsZero() {
			return r.Stored
		}
	}
	return time.Time{}
}

// began returns the earliest known time of the event.
func (e *event) began() time.Time {
	for _, r := range e.records {
		if r.Kind == journal.Stored && !r.Began.IsZero() {
			return r.Began
		}
	}
	if at := e.stored(); !at.IsZero() || len(e.records) == 0 {
		return at
	}
	return e.records[0].Time
}
