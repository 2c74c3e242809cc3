package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

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

const (
	wide         = 100 // cells from which on milliseconds and statuses fit
	statusWidth  = 6
	timingWidth  = 7
	deepest      = 8 // indentation of what is caused by what is caused by ...
	shortClock   = "15:04:05"
	preciseClock = "15:04:05.000"
)

// hopLine is one line of a hop: the first, or the one with what went wrong.
type hopLine struct {
	*hop

	second bool
}

// columns are the widths of the parts of an event line.
type columns struct{ clock, kind, id, route, status int }

func columnsOf(width int) columns {
	c := columns{clock: len(shortClock)}
	rest := width - len(shortClock) - 2*timingWidth - 7
	if width >= wide {
		c.clock, c.status = len(preciseClock), statusWidth
		rest -= len(preciseClock) - len(shortClock) + statusWidth + 1
	}
	c.kind = min(40, rest*38/100)
	c.id = min(40, rest*22/100)
	c.route = min(60, rest-c.kind-c.id)
	return c
}

// eventsPane draws the flow of events.
func (m *model) eventsPane(l layout) []string {
	if l.events == 0 {
		return nil
	}
	title := m.tab(paneEvents, true, "Events")
	if l.lower == 0 {
		title += m.tab(paneLogs, false, m.logsTitle()) + m.tab(paneProblems, false, m.problemsTitle())
	}
	rows := l.rows(paneEvents)
	c := columnsOf(m.width)
	headings := "─" + fitRule("took", timingWidth) + "─" + fitRule("waited", timingWidth)
	if c.status > 0 {
		headings = fitRule("status", c.status) + headings
	}
	lines := []string{m.rule(title+m.behind(paneEvents), headings)}
	if m.flow.hops == 0 {
		return filled(append(lines, m.style.dim.Render("  no events yet: p publishes some")), l.events)
	}
	var newest []hopLine
	m.flow.each(func(h *hop) bool {
		for second := h.lines() == 2; ; second = false {
			newest = append(newest, hopLine{hop: h, second: second})
			if !second {
				return len(newest) < rows+m.scroll[paneEvents]
			}
		}
	})
	for _, line := range window(newest, rows, m.scroll[paneEvents]) {
		lines = append(lines, m.eventLine(line, c))
	}
	return filled(lines, l.events)
}

func fitRule(text string, width int) string {
	return strings.Repeat("─", max(0, width-len(text))) + text
}

// behind is how far a pane is from what is newest.
func (m *model) behind(p pane) string {
	if m.scroll[p] == 0 {
		return ""
	}
	return m.style.warn.Render(fmt.Sprintf(" %d below, end follows ", m.scroll[p]))
}

func (m *model) eventLine(line hopLine, c columns) string {
	r := line.last
	glyph, textStyle := m.outcome(r)
	if line.second {
		return strings.Repeat(" ", c.clock+3) + textStyle.Render(trouble(r, m.location))
	}
	took, waited := "", ""
	if r.Kind != journal.Stored && r.Took > 0 {
		took = duration(r.Took)
	}
	if line.waited > 0 {
		waited = duration(line.waited)
	}
	kind := line.event.kind
	if depth := line.event.depth; depth > 0 {
		kind = strings.Repeat("  ", min(depth, deepest)-1) + "└ " + kind
	}
	cells := []string{
		m.style.dim.Render(m.clock(r.Time, c.clock)),
		textStyle.Render(glyph),
		cell(m.kindLook(r), kind, c.kind),
		cell(m.style.dim, tail(line.event.id, c.id), c.id),
		fit(m.naming.route(r), c.route),
	}
	if c.status > 0 {
		cells = append(cells, textStyle.Render(fitRight(status(r), c.status)))
	}
	return strings.Join(append(cells, fitRight(took, timingWidth), fitRight(waited, timingWidth)), " ")
}

func (m *model) clock(t time.Time, width int) string {
	if t.IsZero() {
		return strings.Repeat(" ", width)
	}
	if width >= len(preciseClock) {
		return t.In(m.location).Format(preciseClock)
	}
	return t.In(m.location).Format(shortClock)
}

func (m *model) kindLook(r journal.Record) lipgloss.Style {
	if r.Kind == journal.Filtered {
		return m.style.dim
	}
	return m.style.bold
}

// outcome gives the glyph and the colour of what happened.
func (m *model) outcome(r journal.Record) (string, lipgloss.Style) {
	switch r.Kind {
	case journal.Delivered:
		return "●", m.style.good
	case journal.Retry:
		return "↻", m.style.warn
	case journal.DeadLettered:
		return "✗", m.style.bad
	case journal.Redriven:
		return "↺", m.style.busy
	case journal.Filtered:
		return "◌", m.style.dim
	default:
		return "○", m.style.warn
	}
}

// status is the answer of a sink.
func status(r journal.Record) string {
	switch {
	case r.Status > 0 && r.Attempt > 1:
		return strconv.Itoa(r.Status) + " ×" + strconv.Itoa(r.Attempt)
	case r.Status > 0:
		return strconv.Itoa(r.Status)
	default:
		return ""
	}
}

// trouble is what went wrong with an event, and what comes next.
func trouble(r journal.Record, location *time.Location) string {
	if unwanted(r) {
		return r.Message
	}
	reason := cmp.Or(r.Message, r.Reason)
	if reason == "" && r.Status > 0 {
		reason = "the sink answered " + strconv.Itoa(r.Status)
	}
	if r.Kind == journal.DeadLettered {
		return "dead letter after " + counted(max(1, r.Attempt), "attempt", "attempts") + ": " + reason
	}
	text := fmt.Sprintf("attempt %d: %s", max(1, r.Attempt), reason)
	if r.Due != nil {
		text += ", again at " + r.Due.In(location).Format(shortClock)
	}
	return text
}
