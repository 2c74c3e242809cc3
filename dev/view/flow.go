package view

import (
	"slices"
	"time"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

// mostHops is how many hops of events are kept.
const mostHops = 2000

// flow is what happened to events lately, each delivery beneath the event that caused it.
type flow struct {
	chains []*chain // in the order of their beginnings
	events map[eventKey]*event
	byID   map[string]*event // causes are known by id alone
	hops   int

	stored, delivered, retries int
}

type eventKey struct{ source, id string }

type event struct {
	eventKey
	kind  string // the event's type
	depth int
	chain *chain
}

// chain is an event that nothing caused, with all that followed: its hops in the order of the tree.
type chain struct{ hops []*hop }

// hop is one event on its way to one Subscription, or only stored so far.
type hop struct {
	event  *event
	last   journal.Record
	waited time.Duration // from being stored to the first attempt, 0 when that is not known
}

// lines is how many lines show it: what goes wrong has one more.
func (h *hop) lines() int {
	if h.last.Kind == journal.Retry || h.last.Kind == journal.DeadLettered || unwanted(h.last) {
		return 2
	}
	return 1
}

// unwanted reports whether an event is stored and no Subscription takes it.
func unwanted(r journal.Record) bool { return r.Kind == journal.Stored && r.Message != "" }

func newFlow() *flow {
	return &flow{events: map[eventKey]*event{}, byID: map[string]*event{}}
}

// add adds one record, whose texts are clean.
func (f *flow) add(r journal.Record) {
	f.count(r.Kind)
	h := f.hop(f.event(r), r)
	if r.Kind == journal.Stored && h.last.Kind != "" {
		return // known already, as an event that is published twice is
	}
	if h.waited == 0 && !r.Stored.IsZero() && !r.Began.IsZero() {
		h.waited = max(0, r.Began.Sub(r.Stored))
	}
	h.last = r
	f.trim()
}

func (f *flow) count(kind journal.Kind) {
	switch kind {
	case journal.Stored:
		f.stored++
	case journal.Delivered:
		f.delivered++
	case journal.Retry:
		f.retries++
	default:
	}
}

// event finds the event of a record, or adds it: to the chain of its cause, or to one of its own.
func (f *flow) event(r journal.Record) *event {
	key := eventKey{source: r.Source, id: r.ID}
	if known, ok := f.events[key]; ok {
		return known
	}
	e := &event{eventKey: key, kind: r.Type}
	if cause, ok := f.byID[r.Cause]; ok && r.Cause != "" {
		e.chain, e.depth = cause.chain, cause.depth+1
	} else {
		e.chain = &chain{}
		f.chains = append(f.chains, e.chain)
	}
	first := &hop{event: e}
	e.chain.insert(first, f.byID[r.Cause])
	f.hops++
	f.events[key], f.byID[r.ID] = e, e
	return e
}

// hop finds the hop of a record. The first delivery takes the one that the stored event had.
func (f *flow) hop(e *event, r journal.Record) *hop {
	last := 0
	for i, h := range e.chain.hops {
		if h.event != e {
			continue
		}
		last = i
		same := h.last.Namespace == r.Namespace && h.last.Subscription == r.Subscription && h.last.DeadLetter == r.DeadLetter
		if same || h.last.Subscription == "" || r.Subscription == "" {
			return h
		}
	}
	h := &hop{event: e}
	e.chain.hops = slices.Insert(e.chain.hops, last+1, h)
	f.hops++
	return h
}

// insert places the first hop of an event after its cause and all that this has caused before.
func (c *chain) insert(h *hop, cause *event) {
	if cause == nil || cause.chain != c {
		c.hops = append(c.hops, h)
		return
	}
	at := slices.IndexFunc(c.hops, func(other *hop) bool { return other.event == cause })
	if at < 0 { // the cause was forgotten
		c.hops = append(c.hops, h)
		return
	}
	for at < len(c.hops) && (c.hops[at].event == cause || c.hops[at].event.depth > cause.depth) {
		at++
	}
	c.hops = slices.Insert(c.hops, at, h)
}

// trim forgets the oldest chain, or the oldest hop of the only one.
func (f *flow) trim() {
	for f.hops > mostHops {
		oldest := f.chains[0]
		keep := 0
		if len(f.chains) == 1 {
			keep = len(oldest.hops) - 1
		}
		for _, h := range oldest.hops[:len(oldest.hops)-keep] {
			f.forget(h.event)
			f.hops--
		}
		oldest.hops = slices.Clone(oldest.hops[len(oldest.hops)-keep:])
		if keep == 0 {
			f.chains = slices.Delete(f.chains, 0, 1)
		}
	}
}

func (f *flow) forget(e *event) {
	delete(f.events, e.eventKey)
	if f.byID[e.id] == e {
		delete(f.byID, e.id)
	}
}

// each calls handle with the kept hops from the newest to the oldest, until it returns false.
func (f *flow) each(handle func(*hop) bool) {
	for _, c := range slices.Backward(f.chains) {
		for _, h := range slices.Backward(c.hops) {
			if !handle(h) {
				return
			}
		}
	}
}

// clear forgets what is shown; what is counted goes on.
func (f *flow) clear() {
	f.chains, f.hops = nil, 0
	clear(f.events)
	clear(f.byID)
}
