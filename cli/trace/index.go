package trace

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

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
