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

// Node is an event and what came of it.
type Node struct {
	ID     string    `json:"id"`
	Source string    `json:"source,omitempty"`
	Type   string    `json:"type,omitempty"` // empty for an event that is only named as a cause
	Trace  string    `json:"trace,omitempty"`
	Stored time.Time `json:"stored,omitzero"` // zero where that is not known
	Asked  bool      `json:"asked,omitempty"` // it is the one that the tree was asked for
	// ByTrace is true where no cause is known: it is placed by its trace and its time.
	ByTrace    bool       `json:"byTrace,omitempty"`
	Deliveries []Delivery `json:"deliveries,omitempty"`
	// Children came of the event, of none or of more than one of its deliveries as far as is known.
	Children []Node `json:"children,omitempty"`
}

// State is where a delivery stands.
type State string

// The states.
const (
	Delivered    State = "delivered"
	Filtered     State = "filtered"
	DeadLettered State = "deadlettered"
	Retrying     State = "retrying" // pending: another attempt comes
	Redriven     State = "redriven" // pending: the dead letter is delivered again
)

// Pending reports whether there is more to come.
func (s State) Pending() bool { return s == Retrying || s == Redriven }

// Delivery is what became of an event for one Subscription.
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

// Attempt is one call of the sink, or a redrive.
type Attempt struct {
	Number   int       `json:"number,omitempty"` // 0 of a redrive
	Began    time.Time `json:"began,omitzero"`
	Took     Duration  `json:"took,omitempty"`
	Status   int       `json:"status,omitempty"`
	Reason   string    `json:"reason,omitempty"`  // why it failed: a code
	Message  string    `json:"message,omitempty"` // the reason as a sentence
	Due      time.Time `json:"due,omitzero"`      // when the next one was to come
	Redriven bool      `json:"redriven,omitempty"`
}

// Duration is written as seconds.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(d).Seconds(), 'f', -1, 64), nil
}

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

// key names an event: an id is unique within its source.
type key struct{ source, id string }

// event is what is known of one.
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

// index has every event that the records speak of.
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

// once are the records in the order of their times, each of them once.
func once(records []journal.Record) []journal.Record {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b journal.Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(rank(a.Kind), rank(b.Kind)), compare(a, b))
	})
	return slices.CompactFunc(records, func(a, b journal.Record) bool {
		return a.Time.Equal(b.Time) && a.Kind == b.Kind && a.Count == b.Count && compare(a, b) == 0
	})
}

// compare orders what happened at the same time.
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

// rank is the position of a kind in the life of an event.
func rank(kind journal.Kind) int { return slices.Index(journal.Kinds(), kind) }

// sorted are the events in the order in which they happened.
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

// link gives events their parents.
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

// cause is the event that one names, of several with the id that of its trace.
func (x index) cause(e *event) *event {
	var found *event
	for _, candidate := range x.byID[e.cause] {
		if candidate != e && (found == nil || candidate.trace == e.trace && found.trace != e.trace) {
			found = candidate
		}
	}
	return found
}

// nearest is the event of the same trace whose delivery began last before this event.
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

// stored is when the stream had the event, zero where that is not known.
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

// began is the first that is known of the event.
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
