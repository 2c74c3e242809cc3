package view

import (
	"hash/fnv"
	"io"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
)

// layout holds the number of lines of each part of the screen.
type layout struct {
	header, table, events, lower, footer int
	beneath                              pane
}

// tall is the number of lines from which two panes fit one above the other.
const tall = 20

// layout divides the height: the header and the footer first, then the table with up to a third, and the
// rest for the events and the pane below them, or for the one of them that has the focus.
func (m *model) layout() layout {
	l := layout{header: 3, footer: 1, beneath: m.beneath}
	if len(m.state.APIRules) > 0 {
		l.header++
	}
	if m.state.Dashboard != "" {
		l.header++
	}
	left := m.height - l.header - l.footer
	if left < 6 {
		l.header = 1
		left = m.height - l.header - l.footer
	}
	l.table = 1 + max(1, min(m.tableRows(), max(3, left/3)))
	left -= l.table
	switch {
	case left >= tall:
		l.lower = left * 2 / 5
		l.events = left - l.lower
	case m.focus == paneLogs || m.focus == paneProblems:
		l.lower, l.beneath = left, m.focus
	default:
		l.events = left
	}
	return l
}

// rows returns the number of lines of a pane without its title.
func (l layout) rows(p pane) int {
	switch p {
	case paneFunctions:
		return max(0, l.table-1)
	case paneEvents:
		return max(0, l.events-1)
	default:
		return max(0, l.lower-1)
	}
}

// tableRows returns the number of lines of the Functions and their last errors.
func (m *model) tableRows() int {
	rows := 0
	for _, f := range m.state.Functions {
		rows += linesOf(f)
	}
	return rows
}

func linesOf(f Function) int {
	if f.LastError != "" || f.Debug != "" || f.Doing != "" {
		return 2
	}
	return 1
}

// length returns the number of lines of a pane's content.
func (m *model) length(p pane) int {
	n := 0
	switch p {
	case paneEvents:
		m.flow.each(func(h *hop) bool {
			n += h.lines()
			return true
		})
	case paneLogs:
		for _, l := range m.lines {
			if m.shows(l) {
				n++
			}
		}
	case paneProblems:
		n = len(m.problems())
	default:
		n = m.tableRows()
	}
	return n
}

// style holds the colours: the sixteen of the terminal's own theme, none where NO_COLOR or the terminal asks for none.
type style struct {
	plain, bold, dim, title, focused, chosen lipgloss.Style
	good, busy, warn, bad, info              lipgloss.Style
	names                                    []lipgloss.Style
}

// newStyle returns the colours that out supports according to the environment.
func newStyle(out io.Writer, environment termenv.Environ) style {
	r := lipgloss.NewRenderer(out, termenv.WithEnvironment(environment))
	// Setting the background avoids a query to the terminal, which none of these colours needs.
	r.SetHasDarkBackground(true)
	base := r.NewStyle()
	colour := func(c string) lipgloss.Style { return base.Foreground(lipgloss.Color(c)) }
	return style{
		plain: base, bold: base.Bold(true), dim: colour("8"), title: base.Bold(true),
		focused: colour("6").Bold(true), chosen: base.Reverse(true),
		good: colour("2"), busy: colour("6"), warn: colour("3"), bad: colour("1").Bold(true), info: colour("6"),
		names: []lipgloss.Style{colour("4"), colour("5"), colour("6"), colour("2"), colour("3"), colour("12"), colour("13")},
	}
}

// name returns the colour of a Function, which is always the same.
func (s style) name(name string) lipgloss.Style {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return s.names[sum.Sum32()%uint32(len(s.names))]
}

// phase returns the glyph and the colour of a phase.
func (s style) phase(phase string) (string, lipgloss.Style) {
	switch phase {
	case "ready":
		return "●", s.good
	case "waking":
		return "◐", s.warn
	case "preparing", "reloading":
		return "◌", s.busy
	case "failing":
		return "✗", s.bad
	default:
		return "○", s.dim
	}
}

// view draws the whole screen: m.height lines, none wider than m.width.
func (m *model) view() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	l := m.layout()
	screen := m.header(l)
	if m.help {
		screen = append(screen, m.helpLines()...)
	} else {
		screen = append(screen, m.table(l.table)...)
		screen = append(screen, m.eventsPane(l)...)
		screen = append(screen, m.lowerPane(l)...)
	}
	for len(screen) < m.height-l.footer {
		screen = append(screen, "")
	}
	screen = append(screen[:max(0, m.height-l.footer)], m.footer())
	for i := range screen {
		screen[i] = ansi.Truncate(screen[i], m.width, "")
	}
	return strings.Join(screen, "\n")
}

func (m *model) header(l layout) []string {
	first := m.style.focused.Render(" rouse dev") + "  " + m.style.bold.Render(m.state.Directory)
	lines := []string{m.beside(first, m.counts()+" ")}
	if l.header == 1 {
		return lines
	}
	second := m.style.dim.Render(" starting ...")
	if m.state.Publish != "" {
		second = m.style.dim.Render(" publish to ") + m.state.Publish
	}
	if m.state.Admin != "" {
		second += m.style.dim.Render("   admin ") + m.state.Admin
	}
	lines = append(lines, second)
	if m.state.Dashboard != "" {
		lines = append(lines, m.style.dim.Render(" dashboard ")+m.state.Dashboard)
	}
	if len(m.state.APIRules) > 0 {
		lines = append(lines, m.hosts())
	}
	return append(lines, "")
}

// hosts returns the URLs of APIRules, as many as fit. Those that are not served are among the problems.
func (m *model) hosts() string {
	var urls []string
	for _, r := range m.state.APIRules {
		if r.URL != "" {
			urls = append(urls, r.URL)
		}
	}
	if len(urls) == 0 {
		urls = []string{"none is served"}
	}
	return ansi.Truncate(m.style.dim.Render(" APIRules ")+strings.Join(urls, "   "), m.width, "…")
}

// counts returns the counters of events, errors first.
func (m *model) counts() string {
	parts := []string{m.style.good.Render(count(m.flow.delivered) + " delivered")}
	if n := m.flow.retries; n > 0 {
		parts = append(parts, m.style.warn.Render(counted(n, "retry", "retries")))
	}
	if n := m.deadLetters(); n > 0 {
		parts = append(parts, m.style.bad.Render(counted(n, "dead letter", "dead letters")))
	}
	if n := m.troubles(); n > 0 {
		parts = append(parts, m.style.bad.Render(counted(n, "problem", "problems")))
	}
	return strings.Join(parts, "  ")
}

// beside aligns one text to the left and one to the right. Where both do not fit it cuts the left one.
func (m *model) beside(left, right string) string {
	left = ansi.Truncate(left, max(0, m.width-ansi.StringWidth(right)-1), "…")
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	return left + strings.Repeat(" ", max(0, gap)) + right
}

func (m *model) footer() string {
	if m.note != "" {
		return m.style.busy.Render(fit(" "+m.note, m.width))
	}
	var hints strings.Builder
	for _, key := range keyHelp()[:hinted] {
		hints.WriteString(" " + m.style.bold.Render(key[0]) + " " + m.style.dim.Render(key[1]) + " ")
	}
	right := ""
	if m.skipped > 0 {
		right = m.style.warn.Render(count(m.skipped) + " not shown ")
	}
	return m.beside(hints.String(), right)
}

func (m *model) helpLines() []string {
	lines := []string{m.rule(m.style.focused.Render(" Keys "), "")}
	for _, key := range keyHelp() {
		lines = append(lines, "  "+m.style.bold.Render(fit(key[0], 12))+key[1])
	}
	return append(lines, "", m.style.dim.Render("  Any key goes back."))
}

// rule draws the title of a pane. Headings are placed at its right end.
func (m *model) rule(title, headings string) string {
	line := m.style.dim
	gap := m.width - 1 - ansi.StringWidth(title) - ansi.StringWidth(headings)
	if gap < 0 {
		return line.Render("─") + title
	}
	return line.Render("─") + title + line.Render(strings.Repeat("─", gap)+headings)
}

// tab draws the name of a pane in a rule.
func (m *model) tab(p pane, shown bool, text string) string {
	textStyle := m.style.dim
	switch {
	case p == m.focus:
		textStyle = m.style.focused.Underline(true)
	case shown:
		textStyle = m.style.title
	}
	return " " + textStyle.Render(text) + " "
}

// window returns the visible lines of a pane: rows of them, scroll lines away from the end.
func window[T any](newestFirst []T, rows, scroll int) []T {
	scroll = max(0, min(scroll, len(newestFirst)-rows))
	part := newestFirst[scroll:min(len(newestFirst), scroll+rows)]
	oldestFirst := make([]T, len(part))
	for i, line := range part {
		oldestFirst[len(part)-1-i] = line
	}
	return oldestFirst
}

// filled pads lines to the number of rows.
func filled(lines []string, rows int) []string {
	for len(lines) < rows {
		lines = append(lines, "")
	}
	return lines[:max(0, rows)]
}

// cell renders a text with a fixed width in a style.
func cell(textStyle lipgloss.Style, text string, width int) string {
	if width <= 0 {
		return ""
	}
	return textStyle.Render(fit(text, width))
}
