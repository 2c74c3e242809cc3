package view

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

const (
	phaseWidth  = 11
	widestName  = 32
	tableNumber = 46 // the cells of a row besides the name and the URL, with the spaces between
)

// table draws the Functions within rows lines, its headings among them, so that the chosen one is seen.
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
	seen := 0 // where the chosen Function ends
	for i := range m.state.Functions {
		body = append(body, m.functionLines(i, name, url)...)
		if i == m.selected {
			seen = len(body)
		}
	}
	available := max(0, rows-1)
	from := max(0, min(seen-available, len(body)-available))
	return filled(append(lines, body[from:]...), rows)
}

// tableWidths gives the widths of the names and of the URLs.
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
	return []string{line, cell(m.style.bad, "     "+first, m.width)}
}

// elapsed is how long something has taken, once that is long enough to show.
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
