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

// mostHops bounds the hops of events that are kept.
const mostHops = 2000

// flow holds recent events, each delivery below the event that caused it.
type flow struct {
	chains []*chain // oldest first
	events map[eventKey]*event
	byID   map[string]*event // causes refer to an id alone
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

// chain is an event without a cause, with all events that it caused: its hops in the order of the tree.
type chain struct{ hops []*hop }

// hop is the delivery of an event to a Subscription, or an event that is only stored.
type hop struct {
	event  *event
	last   journal.Record
	waited time.Duration // from the store to the first attempt, 0 when unknown
}

// lines returns the number of lines of the hop: a failing one has two.
func (h *hop) lines() int {
	if h.last.Kind == journal.Retry || h.last.Kind == journal.DeadLettered || unwanted(h.last) {
		return 2
	}
	return 1
}

// unwanted reports whether an event is stored although no Subscription matches it.
func unwanted(r journal.Record) bool { return r.Kind == journal.Stored && r.Message != "" }

func newFlow() *flow {
	return &flow{events: map[eventKey]*event{}, byID: map[string]*event{}}
}

// add adds a record with cleaned texts.
func (f *flow) add(r journal.Record) {
	f.count(r.Kind)
	h := f.hop(f.event(r), r)
	if r.Kind == journal.Stored && h.last.Kind != "" {
		return // known, as an event that was published twice
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

// event returns the event of a record. It adds a new one to the chain of its cause, or to one of its own.
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

// hop returns the hop of a record. The first delivery reuses the hop of the stored event.
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

// insert inserts the first hop of an event after its cause and the events that the cause caused before.
func (c *chain) insert(h *hop, cause *event) {
	if cause == nil || cause.chain != c {
		c.hops = append(c.hops, h)
		return
	}
	at := slices.IndexFunc(c.hops, func(other *hop) bool { return other.event == cause })
	if at < 0 { // the cause was trimmed
		c.hops = append(c.hops, h)
		return
	}
	for at < len(c.hops) && (c.hops[at].event == cause || c.hops[at].event.depth > cause.depth) {
		at++
	}
	c.hops = slices.Insert(c.hops, at, h)
}

// trim removes the oldest chain, or the oldest hop of the only chain.
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

// each calls handle with the hops from the newest to the oldest, until it returns false.
func (f *flow) each(handle func(*hop) bool) {
	for _, c := range slices.Backward(f.chains) {
		for _, h := range slices.Backward(c.hops) {
			if !handle(h) {
				return
			}
		}
	}
}

// clear removes the events; counters stay.
func (f *flow) clear() {
	f.chains, f.hops = nil, 0
	clear(f.events)
	clear(f.byID)
}

const (
	wide         = 100 // the width from which milliseconds and statuses fit
	statusWidth  = 6
	timingWidth  = 7
	deepest      = 8 // the deepest indentation of chained events
	shortClock   = "15:04:05"
	preciseClock = "15:04:05.000"
)

// hopLine is a line of a hop: the first, or the one with the error.
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

// behind returns how far a pane is scrolled from the newest line.
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

// outcome returns the glyph and the colour of a record.
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

// status returns the status of a sink's response.
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

// trouble returns the error of a delivery, and what happens next.
func trouble(r journal.Record, location *time.Location) string {
	if unwanted(r) {
		return r.Message
	}
	reason := cmp.Or(r.Message, r.Reason)
	if reason == "" && r.Status > 0 {
		reason = "the sink answered " + strconv.Itoa(r.Status)
	}
	if status := strconv.Itoa(r.Status); r.Status > 0 && !strings.Contains(reason, status) {
		reason += " (it answered " + status + ")"
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
