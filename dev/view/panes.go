package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/process"
)

const (
	phaseWidth  = 11
	widestName  = 32
	tableNumber = 46 // the cells of a row without name and URL, including spaces
)

// table draws the Functions in rows lines including the headings, scrolled to the selected one.
func (m *model) table(rows int) []string {
	name, url := m.tableWidths()
	heading := fmt.Sprintf("   %s %s %s %s %s %s %s", fit("FUNCTION", name), fit("PHASE", phaseWidth), "READY",
		"BACKLOG", "WAKES", "LAST WAKE", fit("URL", url))
	textStyle := m.style.dim
	if m.focus == paneFunctions {
		textStyle = m.style.focused
	}
	lines := []string{textStyle.Render(heading)}
	if len(m.state.Functions) == 0 {
		return filled(append(lines, m.style.dim.Render("   no Functions yet")), rows)
	}
	var body []string
	seen := 0                                     // the last line of the selected Function
	begins := make([]int, len(m.state.Functions)) // the first line of each
	for i := range m.state.Functions {
		begins[i] = len(body)
		body = append(body, m.functionLines(i, name, url)...)
		if i == m.selected {
			seen = len(body)
		}
	}
	available := max(0, rows-1)
	from := max(0, min(seen-available, len(body)-available))
	hidden := 0
	for _, line := range begins {
		if line < from || line >= from+available {
			hidden++
		}
	}
	if hidden > 0 {
		lines[0] = m.beside(lines[0], m.style.warn.Render(count(hidden)+" hidden "))
	}
	return filled(append(lines, body[from:]...), rows)
}

// tableWidths returns the widths of names and URLs.
func (m *model) tableWidths() (name, url int) {
	name = len("FUNCTION")
	for _, f := range m.state.Functions {
		name = max(name, ansi.StringWidth(m.naming.of(f.Namespace, f.Name)))
		url = max(url, ansi.StringWidth(f.URL))
	}
	available := m.width - tableNumber - 2
	name = min(name, widestName, max(len("FUNCTION"), available-url))
	return name, max(0, available-name)
}

func (m *model) functionLines(index, name, url int) []string {
	f := m.state.Functions[index]
	mark, number := " ", " "
	if index == m.selected && (m.focus == paneFunctions || m.only == f.key()) {
		mark = "▸"
	}
	if index < 9 {
		number = strconv.Itoa(index + 1)
	}
	glyph, textStyle := m.style.phase(f.Phase)
	wake := ""
	if f.LastWake > 0 {
		wake = duration(f.LastWake)
	}
	own := m.naming.of(f.Namespace, f.Name)
	line := strings.Join([]string{
		m.style.focused.Render(mark) + m.style.dim.Render(number),
		cell(m.style.name(own), own, name),
		cell(textStyle, glyph+" "+f.Phase, phaseWidth),
		fitRight(fmt.Sprintf("%d/%d", f.Ready, f.Desired), 5),
		m.backlog(f.Backlog),
		fitRight(count(f.Wakes), 5),
		fitRight(wake, 9),
		cell(m.style.dim, f.URL, url),
	}, " ")
	if linesOf(f) == 1 {
		return []string{line}
	}
	if f.Doing != "" {
		return []string{line, cell(m.style.busy, "     "+f.Doing+elapsed(f.DoingFor), m.width)}
	}
	if f.LastError == "" {
		return []string{line, cell(m.style.busy, "     debugger at "+f.Debug, m.width)}
	}
	first, _, _ := strings.Cut(f.LastError, "\n")
	if f.Older {
		first = "an older version answers: " + first
	}
	return []string{line, cell(m.style.bad, "     "+first, m.width)}
}

// elapsed formats a duration that is long enough to show.
func elapsed(d time.Duration) string {
	if d < time.Second {
		return ""
	}
	return fmt.Sprintf(" (%d s)", int(d.Seconds()))
}

func (m *model) backlog(n int) string {
	text := fitRight(count(n), 7)
	if n > 0 {
		return m.style.warn.Render(text)
	}
	return text
}

const widestLogName = 16

// lowerPane draws the logs or the problems.
func (m *model) lowerPane(l layout) []string {
	if l.lower == 0 {
		return nil
	}
	logs := l.beneath == paneLogs
	title := m.tab(paneLogs, logs, m.logsTitle()) + m.tab(paneProblems, !logs, m.problemsTitle())
	if l.events == 0 {
		title = m.tab(paneEvents, false, "Events") + title
	}
	lines := []string{m.rule(title+m.behind(l.beneath), "")}
	if logs {
		return filled(append(lines, m.logLines(l.rows(paneLogs))...), l.lower)
	}
	return filled(append(lines, m.problemLines(l.rows(paneProblems))...), l.lower)
}

func (m *model) logsTitle() string {
	if m.only == (types.NamespacedName{}) {
		return "Logs"
	}
	return "Logs of " + m.naming.of(m.only.Namespace, m.only.Name)
}

func (m *model) problemsTitle() string {
	if n := m.troubles(); n > 0 {
		return "Problems " + strconv.Itoa(n)
	}
	return "Problems"
}

func (m *model) logLines(rows int) []string {
	width := 5
	for _, f := range m.state.Functions {
		width = max(width, min(widestLogName, ansi.StringWidth(m.naming.of(f.Namespace, f.Name))))
	}
	var newest []process.Line
	for i := len(m.lines) - 1; i >= 0 && len(newest) < rows+m.scroll[paneLogs]; i-- {
		if m.shows(m.lines[i]) {
			newest = append(newest, m.lines[i])
		}
	}
	if len(newest) == 0 {
		return []string{m.style.dim.Render("  nothing yet")}
	}
	var lines []string
	for _, line := range window(newest, rows, m.scroll[paneLogs]) {
		lines = append(lines, m.logLine(line, width))
	}
	return lines
}

func (m *model) logLine(line process.Line, width int) string {
	bar, textStyle := "│", m.style.plain
	switch line.Stream {
	case process.Stderr:
		bar, textStyle = "┃", m.style.warn
	case process.Rouse:
		textStyle = m.style.info
	}
	clock := len(shortClock)
	if m.width >= wide {
		clock = len(preciseClock)
	}
	own := m.naming.of(line.Namespace, line.Function)
	text := ansi.TruncateLeft(line.Text, m.shift, "")
	available := m.width - clock - width - 4
	return m.style.dim.Render(m.clock(line.Time, clock)) + " " + cell(m.style.name(own), own, width) + " " +
		textStyle.Render(bar) + " " + textStyle.Render(ansi.Truncate(text, max(0, available), "…"))
}

// problemLine is a line of the problems pane.
type problemLine struct {
	text      string
	textStyle lipgloss.Style
}

// troubles counts the problems without warnings.
func (m *model) troubles() int {
	n := 0
	for _, p := range m.state.Problems {
		if !p.Warning {
			n++
		}
	}
	for _, f := range m.state.Functions {
		if f.LastError != "" {
			n++
		}
	}
	return n
}

// problems returns the lines about problems in files, Functions and recent events.
func (m *model) problems() []problemLine {
	var lines []problemLine
	add := func(textStyle lipgloss.Style, title, text string) {
		lines = append(lines, problemLine{text: title, textStyle: textStyle})
		if text == "" {
			return
		}
		for part := range strings.SplitSeq(ansi.Wrap(text, max(10, m.width-4), ""), "\n") {
			lines = append(lines, problemLine{text: "  " + part, textStyle: m.style.plain})
		}
	}
	for _, p := range m.state.Problems {
		textStyle := m.style.bad
		if p.Warning {
			textStyle = m.style.warn
		}
		add(textStyle, sentence(p.String(), p.Object), p.Message)
		if p.Remedy != "" {
			lines = append(lines, problemLine{text: "  " + p.Remedy, textStyle: m.style.info})
		}
	}
	for _, f := range m.state.Functions {
		if f.LastError != "" {
			add(m.style.bad, sentence(f.At.String(), "Function "+m.naming.of(f.Namespace, f.Name)), f.LastError)
		}
	}
	for _, r := range slices.Backward(m.kept()) {
		title := m.clock(r.Time, len(shortClock)) + " " + r.Type + " " + r.ID + ": " + m.naming.route(r)
		add(m.style.bad, title, trouble(r, m.location))
	}
	return lines
}

func (m *model) problemLines(rows int) []string {
	all := m.problems()
	if len(all) == 0 {
		return []string{m.style.good.Render("  none")}
	}
	from := max(0, min(m.scroll[paneProblems], len(all)-rows))
	var lines []string
	for _, line := range all[from:min(len(all), from+rows)] {
		lines = append(lines, cell(line.textStyle, " "+line.text, m.width))
	}
	return lines
}
