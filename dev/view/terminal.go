package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/term"
	"golang.org/x/sync/errgroup"
)

const (
	// frame is how long a picture stands at least.
	frame           = 50 * time.Millisecond
	framesPerSecond = int(time.Second / frame)
)

// Terminal shows the source live until the context ends or the user quits, which are both no error. Signals
// are the caller's. Where out is no terminal that can show it, it is Plain.
func Terminal(ctx context.Context, source Source, in io.Reader, out io.Writer) error {
	return live{environment: environment(os.Environ()), location: time.Local}.run(ctx, source, in, out)
}

// Capable reports whether out is a terminal that can show the live view.
func Capable(out io.Writer) bool {
	return capable(out, environment(os.Environ()))
}

func capable(out io.Writer, env environment) bool {
	file, ok := out.(term.File)
	name := env.Getenv("TERM")
	return ok && name != "" && name != "dumb" && term.IsTerminal(file.Fd())
}

// live is what a live view depends on besides its source.
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

// pump hands over what came in, at most once a frame.
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

// note is what a publish led to.
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

// program makes the model one of bubbletea's.
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

// typed presses the keys of a message, which has several when they came quickly.
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
		default: // one is on its way already
		}
	default:
	}
	return nil
}
