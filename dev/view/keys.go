package view

import "k8s.io/apimachinery/pkg/types"

// action is what a key asks for outside the model.
type action int

const (
	actionNone action = iota
	actionQuit
	actionPublish
)

// hinted is how many keys the last line of the screen shows.
const hinted = 6

// keyHelp lists what keys do, the first of them for the last line of the screen, all for the help.
func keyHelp() [][2]string {
	return [][2]string{
		{"p", "publish again"},
		{"1-9", "logs of one"},
		{"tab", "next pane"},
		{"↑↓", "scroll"},
		{"?", "help"},
		{"q", "quit"},
		{"0", "logs of all"},
		{"enter, l", "logs of the chosen Function"},
		{"esc", "logs of all, and back to the newest"},
		{"pgup pgdn", "scroll by a page; home and end to the edges"},
		{"← →", "move long lines of logs"},
		{"c", "clear what the pane shows"},
		{"ctrl+c", "quit as well"},
	}
}

// press handles a key.
func (m *model) press(key string) action {
	if m.help && key != "q" && key != "ctrl+c" {
		m.help = false
		return actionNone
	}
	m.note = ""
	switch key {
	case "q", "ctrl+c":
		return actionQuit
	case "p":
		m.note = "publishing again ..."
		return actionPublish
	case "?", "h":
		m.help = true
	default:
		m.change(key)
	}
	return actionNone
}

// change handles the keys that decide what is shown.
func (m *model) change(key string) {
	switch key {
	case "tab":
		m.setFocus((m.focus + 1) % panes)
	case "shift+tab":
		m.setFocus((m.focus + panes - 1) % panes)
	case "enter", "l":
		m.choose(m.selected)
	case "0", "a":
		m.showAll()
	case "esc":
		m.showAll()
		m.scroll = [panes]int{}
	case "c":
		m.clear()
	default:
		m.move(key)
	}
}

func (m *model) setFocus(p pane) {
	m.focus = p
	if p == paneLogs || p == paneProblems {
		m.beneath = p
	}
}

// choose shows the logs of one Function.
func (m *model) choose(index int) {
	if index >= len(m.state.Functions) {
		return
	}
	m.selected, m.only = index, m.state.Functions[index].key()
	m.scroll[paneLogs], m.shift = 0, 0
	m.setFocus(paneLogs)
}

func (m *model) showAll() {
	m.only, m.scroll[paneLogs], m.shift = types.NamespacedName{}, 0, 0
}

func (m *model) clear() {
	m.scroll[m.focus] = 0
	switch m.focus {
	case paneEvents:
		m.flow.clear()
	case paneLogs:
		m.lines, m.skipped = nil, 0
	case paneProblems:
		m.dead = nil
	default:
	}
}

// move handles the keys that go through what is shown.
func (m *model) move(key string) {
	page := max(1, m.layout().rows(m.focus)-1)
	steps := map[string]int{"up": 1, "k": 1, "down": -1, "j": -1, "pgup": page, "pgdown": -page, "home": 1 << 30, "end": -1 << 30}
	switch step, ok := steps[key]; {
	case ok && m.focus == paneFunctions:
		m.selected = max(0, min(m.selected-step, len(m.state.Functions)-1))
	case ok && m.focus == paneProblems:
		m.scroll[m.focus] = m.scrolled(m.focus, -step)
	case ok:
		m.scroll[m.focus] = m.scrolled(m.focus, step)
	case key == "left":
		m.shift = max(0, m.shift-20)
	case key == "right":
		m.shift = min(longest, m.shift+20)
	case len(key) == 1 && key >= "1" && key <= "9":
		m.choose(int(key[0] - '1'))
	}
}

// scrolled gives where a pane is after a step, which leaves it no further than its end.
func (m *model) scrolled(p pane, step int) int {
	end := max(0, m.length(p)-m.layout().rows(p))
	return max(0, min(m.scroll[p]+step, end))
}
