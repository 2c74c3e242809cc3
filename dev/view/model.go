package view

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Source is the local mode that is shown. Each of the following calls handle one after another, first with
// what it holds already, and returns when the context ends.
type Source interface {
	// FollowState gives the state as it is, then again whenever something in it has changed.
	FollowState(ctx context.Context, handle func(State))
	// FollowEvents gives what happens to events, the oldest first. One that is stored and that no Subscription takes has a
	// Message about that.
	FollowEvents(ctx context.Context, handle func(journal.Record))
	// FollowLines gives what Functions write, and what local mode itself reports: a line of the stream "rouse",
	// without a Function where it is about none.
	FollowLines(ctx context.Context, handle func(process.Line))
	// Republish publishes the events of this run once more, with ids of their own, and returns what it did
	// in a few words.
	Republish(ctx context.Context) (string, error)
}

// State is everything but the flow: where local mode is, and how its Functions are. What is not known yet
// is empty.
type State struct {
	Directory string // as the user named it
	Publish   string // the URL that takes events
	Admin     string // the URL of the eventbridge's admin API
	Functions []Function
	APIRules  []APIRule
	Problems  []manifest.Problem
	// DeadLetters is how many are kept of each Subscription.
	DeadLetters map[types.NamespacedName]uint64
}

// APIRule is one of them, and where its host answers: nowhere without a URL.
type APIRule struct {
	Namespace, Name, URL string
	At                   manifest.Position
}

// Function is one Function, how many events wait for it, and for how long it does what it does.
type Function struct {
	runner.Status

	Backlog  int
	DoingFor time.Duration
}

func (f Function) key() types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
}

// mostWaiting is how many records, and how many lines, wait for the next picture.
const mostWaiting = 4000

// batch is what came in since the last picture.
type batch struct {
	state   *State
	events  []journal.Record
	lines   []process.Line
	skipped int // what came faster than it could be shown
}

// inbox collects what the followers of a source get, so that none of them waits for the screen.
type inbox struct {
	ready chan struct{} // has a value while the inbox is not empty

	mutex   sync.Mutex
	waiting batch
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) state(s State) {
	i.put(func(b *batch) { b.state = &s })
}

func (i *inbox) event(r journal.Record) {
	i.put(func(b *batch) {
		b.events = append(b.events, r)
		if len(b.events) > mostWaiting {
			b.events = append(b.events[:0], b.events[mostWaiting/2:]...)
			b.skipped += mostWaiting / 2
		}
	})
}

func (i *inbox) line(l process.Line) {
	i.put(func(b *batch) {
		b.lines = append(b.lines, l)
		if len(b.lines) > mostWaiting {
			b.lines = append(b.lines[:0], b.lines[mostWaiting/2:]...)
			b.skipped += mostWaiting / 2
		}
	})
}

func (i *inbox) put(change func(*batch)) {
	i.mutex.Lock()
	change(&i.waiting)
	i.mutex.Unlock()
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// drain empties the inbox.
func (i *inbox) drain() batch {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	taken := i.waiting
	i.waiting = batch{}
	return taken
}

// mostLines is how many lines of logs are kept.
const mostLines = 5000

// pane is a part of the screen that can be scrolled.
type pane int

const (
	paneFunctions pane = iota
	paneEvents
	paneLogs
	paneProblems
	panes
)

// model is what the view knows. It is changed by batches and by keys, and has neither clock nor screen.
type model struct {
	location      *time.Location
	style         style
	width, height int

	state   State
	naming  naming
	flow    *flow
	lines   []process.Line
	skipped int
	dead    []journal.Record // the last dead letters, for the problems

	focus    pane
	beneath  pane                 // what a tall screen shows beneath the events
	only     types.NamespacedName // the logs of this Function; the zero name: of all
	selected int
	scroll   [panes]int // lines away from the newest, or from the top for functions and problems
	shift    int        // cells that long lines of logs are moved to the left
	help     bool
	note     string // what the last key led to
}

func newModel(s style, location *time.Location) *model {
	return &model{location: location, style: s, flow: newFlow(), focus: paneEvents, beneath: paneLogs}
}

// receive adds what came in.
func (m *model) receive(b batch) {
	if b.state != nil {
		m.state = cleanState(*b.state)
		m.naming = namingOf(m.state.Functions)
		m.selected = max(0, min(m.selected, len(m.state.Functions)-1))
	}
	before := m.flow.hops
	for _, r := range b.events {
		if r.Kind == journal.Skipped {
			m.skipped += r.Count
			continue
		}
		r = cleanRecord(r)
		m.flow.add(r)
		m.trackDeadLetter(r)
	}
	m.stay(paneEvents, m.flow.hops-before)
	shown := 0
	for _, l := range b.lines {
		l = cleanLine(l)
		m.lines = append(m.lines, l)
		if m.shows(l) {
			shown++
		}
	}
	m.lines = lastOf(m.lines, mostLines)
	m.stay(paneLogs, shown)
	m.skipped += b.skipped
}

// stay keeps what is shown in place while the user has scrolled up.
func (m *model) stay(p pane, added int) {
	if m.scroll[p] > 0 {
		m.scroll[p] = max(1, m.scroll[p]+added)
	}
}

// shows reports whether a line is among those that the logs show.
func (m *model) shows(l process.Line) bool {
	return m.only == types.NamespacedName{} || m.only == types.NamespacedName{Namespace: l.Namespace, Name: l.Function}
}

func lastOf[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	return slices.Delete(all, 0, len(all)-most)
}

// trackDeadLetter keeps a dead letter until it is redriven. The record of that names all of it but the sink.
func (m *model) trackDeadLetter(r journal.Record) {
	switch r.Kind {
	case journal.DeadLettered:
		m.dead = lastOf(append(m.dead, r), 100)
	case journal.Redriven:
		m.dead = slices.DeleteFunc(m.dead, func(d journal.Record) bool {
			return d.Source == r.Source && d.ID == r.ID && d.Namespace == r.Namespace && d.Subscription == r.Subscription
		})
	default:
	}
}

// kept are the dead letters that were not purged: the last ones of each Subscription, as many as it has.
func (m *model) kept() []journal.Record {
	left := maps.Clone(m.state.DeadLetters)
	var kept []journal.Record
	for _, r := range slices.Backward(m.dead) {
		if of := (types.NamespacedName{Namespace: r.Namespace, Name: r.Subscription}); left[of] > 0 {
			left[of]--
			kept = append(kept, r)
		}
	}
	slices.Reverse(kept)
	return kept
}

// deadLetterCount is how many there are, also of earlier runs.
func (m *model) deadLetters() int {
	n := 0
	for _, of := range m.state.DeadLetters {
		n += int(of)
	}
	return n
}

func cleanState(s State) State {
	s.Directory, s.Publish, s.Admin = clean(s.Directory), clean(s.Publish), clean(s.Admin)
	s.Functions = slices.Clone(s.Functions)
	for i := range s.Functions {
		f := &s.Functions[i]
		f.Namespace, f.Name, f.Runtime, f.URL = clean(f.Namespace), clean(f.Name), clean(f.Runtime), clean(f.URL)
		f.Phase, f.LastError, f.Debug = clean(f.Phase), cleanLines(f.LastError), clean(f.Debug)
		f.Doing = clean(f.Doing)
		f.At.File = clean(f.At.File)
	}
	s.APIRules = slices.Clone(s.APIRules)
	for i := range s.APIRules {
		r := &s.APIRules[i]
		r.Namespace, r.Name, r.URL, r.At.File = clean(r.Namespace), clean(r.Name), clean(r.URL), clean(r.At.File)
	}
	s.Problems = slices.Clone(s.Problems)
	for i := range s.Problems {
		p := &s.Problems[i]
		p.File, p.Object, p.Message = clean(p.File), clean(p.Object), cleanLines(p.Message)
		p.Remedy = clean(p.Remedy)
	}
	return s
}

func cleanRecord(r journal.Record) journal.Record {
	r.ID, r.Source, r.Type, r.Cause, r.Trace = clean(r.ID), clean(r.Source), clean(r.Type), clean(r.Cause), clean(r.Trace)
	r.Namespace, r.Subscription, r.Sink = clean(r.Namespace), clean(r.Subscription), clean(r.Sink)
	r.Reason, r.Message = clean(r.Reason), clean(r.Message)
	return r
}

func cleanLine(l process.Line) process.Line {
	l.Namespace, l.Function, l.Replica = clean(l.Namespace), clean(l.Function), clean(l.Replica)
	l.Stream, l.Text = clean(l.Stream), clean(l.Text)
	return l
}
