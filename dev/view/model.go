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

// Source is the data source of a view. Each Follow method calls handle sequentially, first with the existing data, and returns when the
// context ends.
type Source interface {
	// FollowState passes the state, and again after each change.
	FollowState(ctx context.Context, handle func(State))
	// FollowEvents passes records of events, oldest first. A stored event that no Subscription matches has a Message about that.
	FollowEvents(ctx context.Context, handle func(journal.Record))
	// FollowLines passes the lines of Functions, and messages of local mode: lines of the stream "rouse", without a Function where they
	// concern none.
	FollowLines(ctx context.Context, handle func(process.Line))
	// Republish publishes the events of this run again with new ids, and returns a short message.
	Republish(ctx context.Context) (string, error)
}

// State holds everything except events and logs: the addresses of local mode, and the status of its Functions. Unknown fields are empty.
type State struct {
	Directory string // as the user wrote it
	Publish   string // the URL of the publish endpoint
	Admin     string // the URL of the eventbridge's admin API
	Dashboard string // the URL of the dashboard, with its token
	Functions []Function
	APIRules  []APIRule
	Problems  []manifest.Problem
	// DeadLetters counts the dead letters of each Subscription.
	DeadLetters map[types.NamespacedName]uint64
}

// APIRule is an APIRule with the URL of its host, or a Door with its own; empty when it is not served.
type APIRule struct {
	Namespace, Name string
	Kind            string // empty for an APIRule
	URL             string
	At              manifest.Position
}

// Function is a Function with its backlog, and the time since it is in its phase.
type Function struct {
	runner.Status

	Backlog  int
	DoingFor time.Duration
}

func (f Function) key() types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
}

// mostWaiting bounds the records, and the lines, that wait for the next frame.
const mostWaiting = 4000

// batch holds the data since the last frame.
type batch struct {
	state   *State
	events  []journal.Record
	lines   []process.Line
	skipped int // dropped, because they came faster than frames
}

// inbox buffers the data of a source, so that its followers do not wait for the screen.
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

// mostLines bounds the log lines that are kept.
const mostLines = 5000

// pane is a scrollable part of the screen.
type pane int

const (
	paneFunctions pane = iota
	paneEvents
	paneLogs
	paneProblems
	panes
)

// model is the state of the view. Batches and keys change it; it has neither clock nor screen.
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
	beneath  pane                 // what a tall screen shows below the events
	only     types.NamespacedName // the Function whose logs are shown; zero for all
	selected int
	scroll   [panes]int // lines away from the newest, or from the top for functions and problems
	shift    int        // horizontal scroll of long log lines, in cells
	help     bool
	note     string // result of the last key
}

func newModel(s style, location *time.Location) *model {
	return &model{location: location, style: s, flow: newFlow(), focus: paneEvents, beneath: paneLogs}
}

// receive adds a batch.
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

// stay keeps the visible lines in place while the user has scrolled up.
func (m *model) stay(p pane, added int) {
	if m.scroll[p] > 0 {
		m.scroll[p] = max(1, m.scroll[p]+added)
	}
}

// shows reports whether the logs show a line.
func (m *model) shows(l process.Line) bool {
	return m.only == types.NamespacedName{} || m.only == types.NamespacedName{Namespace: l.Namespace, Name: l.Function}
}

func lastOf[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	return slices.Delete(all, 0, len(all)-most)
}

// trackDeadLetter holds a dead letter until it is redriven. The record of a redrive has everything but the sink.
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

// kept returns the dead letters that were not purged: the last of each Subscription, as many as it has.
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

// deadLetters counts the dead letters, including those of earlier runs.
func (m *model) deadLetters() int {
	n := 0
	for _, of := range m.state.DeadLetters {
		n += int(of)
	}
	return n
}

func cleanState(s State) State {
	s.Directory, s.Publish, s.Admin, s.Dashboard = clean(s.Directory), clean(s.Publish), clean(s.Admin), clean(s.Dashboard)
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
