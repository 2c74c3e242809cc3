package view

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

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
