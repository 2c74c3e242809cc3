package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/term"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
)

// environment is a list of NAME=value, as of os.Environ. It implements termenv.Environ.
type environment []string

// Environ implements termenv.Environ.
func (e environment) Environ() []string { return e }

// Getenv implements termenv.Environ. It returns the last value of name.
func (e environment) Getenv(name string) string {
	value := ""
	for _, entry := range e {
		if key, set, found := strings.Cut(entry, "="); found && key == name {
			value = set
		}
	}
	return value
}

const (
	// frame is the minimum time between two frames.
	frame           = 50 * time.Millisecond
	framesPerSecond = int(time.Second / frame)
)

// Terminal shows the source live until the context ends or the user quits; neither is an error. The caller handles signals. When out is not
// a capable terminal, Terminal does what Plain does.
func Terminal(ctx context.Context, source Source, in io.Reader, out io.Writer) error {
	return live{environment: environment(os.Environ()), location: time.Local}.run(ctx, source, in, out)
}

// capable reports whether out is a terminal that can show the live view.
func capable(out io.Writer, env environment) bool {
	file, ok := out.(term.File)
	name := env.Getenv("TERM")
	return ok && name != "" && name != "dumb" && term.IsTerminal(file.Fd())
}

// live holds the dependencies of a live view besides its source.
type live struct {
	environment environment
	location    *time.Location
}

func (s live) run(ctx context.Context, source Source, in io.Reader, out io.Writer) error {
	if !capable(out, s.environment) {
		return plain{out: out, location: s.location, now: time.Now}.run(ctx, source)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	received := newInbox()
	publish := make(chan struct{}, 1)
	program := tea.NewProgram(
		&program{model: newModel(newStyle(out, s.environment), s.location), publish: publish},
		tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(s.environment), tea.WithAltScreen(),
		tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler(),
	)
	group, ctx := errgroup.WithContext(ctx)
	follow := func(run func()) {
		group.Go(func() error {
			run()
			return nil
		})
	}
	follow(func() { source.FollowState(ctx, received.state) })
	follow(func() { source.FollowEvents(ctx, received.event) })
	follow(func() { source.FollowLines(ctx, received.line) })
	follow(func() { pump(ctx, received, func(b batch) { program.Send(b) }) })
	follow(func() { republish(ctx, source, publish, func(n note) { program.Send(n) }) })
	follow(func() {
		<-ctx.Done()
		program.Quit()
	})
	_, err := program.Run()
	cancel()
	if waited := group.Wait(); err == nil {
		err = waited
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("show the live view: %w", err)
	}
	return nil
}

// pump sends batches, at most one per frame.
func pump(ctx context.Context, received *inbox, send func(batch)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-received.ready:
			send(received.drain())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(frame):
		}
	}
}

// note is the result of a publish.
type note string

func republish(ctx context.Context, source Source, asked <-chan struct{}, notify func(note)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
		}
		result, err := source.Republish(ctx)
		if err != nil {
			result = "not published: " + err.Error()
		}
		notify(note(clean(result)))
	}
}

// program adapts the model to bubbletea.
type program struct {
	*model

	publish chan<- struct{}
}

// Init implements tea.Model.
func (p *program) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (p *program) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = message.Width, message.Height
	case batch:
		p.receive(message)
	case note:
		p.note = string(message)
	case tea.KeyMsg:
		return p, p.typed(message)
	}
	return p, nil
}

// View implements tea.Model.
func (p *program) View() string { return p.view() }

// typed handles the keys of a message: several when they were typed quickly.
func (p *program) typed(message tea.KeyMsg) tea.Cmd {
	if message.Type != tea.KeyRunes {
		return p.do(p.press(message.String()))
	}
	if message.Paste {
		return nil
	}
	for _, key := range message.Runes {
		if command := p.do(p.press(string(key))); command != nil {
			return command
		}
	}
	return nil
}

func (p *program) do(a action) tea.Cmd {
	switch a {
	case actionQuit:
		return tea.Quit
	case actionPublish:
		select {
		case p.publish <- struct{}{}:
		default: // one is pending already
		}
	default:
	}
	return nil
}

// action is an action of a key outside of the model.
type action int

const (
	actionNone action = iota
	actionQuit
	actionPublish
)

// hinted is the number of keys in the last line of the screen.
const hinted = 6

// keyHelp returns the keys with their descriptions. The last line of the screen shows the first hinted ones.
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

// change handles the keys that select what is shown.
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

// move handles the keys that scroll.
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

// scrolled returns the position of a pane after a step, within its content.
func (m *model) scrolled(p pane, step int) int {
	end := max(0, m.length(p)-m.layout().rows(p))
	return max(0, min(m.scroll[p]+step, end))
}
