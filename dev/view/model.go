package view

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

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
