package view

// layout is how many lines each part of the screen has.
type layout struct {
	header, table, events, lower, footer int
	beneath                              pane
}

// tall is how many lines there must be for two panes, one above the other.
const tall = 20

// layout divides the height: the header and the footer first, then the table with up to a third, and the
// rest for the events and what is beneath them, or for the one of them that has the focus.
func (m *model) layout() layout {
	l := layout{header: 3, footer: 1, beneath: m.beneath}
	if len(m.state.APIRules) > 0 {
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

// rows gives how many lines a pane has for what it shows, without its title.
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

// tableRows is how many lines the Functions take, with their last errors beneath.
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

// length is how many lines a pane would show if all of them fitted.
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
