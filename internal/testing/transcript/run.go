package transcript

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Options of a run.
type Options struct {
	// Name is that of the page, for messages.
	Name string
	// Dir is where it begins, and Env its environment.
	Dir string
	Env []string
	// Timeout is how long one step may take.
	Timeout time.Duration
	// Progress is called with each step before it runs. It may be nil.
	Progress func(Step)
}

// pause is how long the runner waits before it checks again.
const pause = 100 * time.Millisecond

// player runs the steps of a page.
type player struct {
	Options
	session *session
	running []*background
}

// Play runs the steps. Its error names the step, what was wanted and what was printed.
func Play(ctx context.Context, steps []Step, o Options) (err error) {
	scratch, err := os.MkdirTemp("", "transcript")
	if err != nil {
		return fmt.Errorf("make a folder for the output: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bash, err := openSession(ctx, o, scratch)
	if err != nil {
		return err
	}
	p := &player{Options: o, session: bash}
	defer func() { p.close(ctx) }()
	for _, step := range steps {
		if o.Progress != nil {
			o.Progress(step)
		}
		if err := p.play(ctx, step); err != nil {
			return fmt.Errorf("%s:%d: %w", o.Name, step.Line, err)
		}
	}
	return nil
}

// close ends what still runs: the newest first, as a reader would.
func (p *player) close(ctx context.Context) {
	for _, newest := range slices.Backward(p.running) {
		ctx, cancel := context.WithTimeout(ctx, p.Timeout)
		_ = newest.interrupt(ctx) // killed in any case
		cancel()
		newest.kill()
	}
	p.session.close()
}

func (p *player) play(ctx context.Context, step Step) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.session.command.Cancel() }) // a step that takes too long ends the page
	defer stop()
	switch step.Kind {
	case Start:
		return p.start(ctx, step)
	case Follow:
		return p.follow(ctx, step.Want)
	case Interrupt:
		return p.interrupt(ctx)
	default:
		return p.run(ctx, step)
	}
}

func (p *player) run(ctx context.Context, step Step) error {
	var before error // of the attempt before: the last one is cut short by the timeout
	for {
		output, err := p.attempt(step)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || before == nil {
			before = fmt.Errorf("%w\n--- commands\n%s--- printed\n%s", err, step.Script, output)
		}
		if !step.Await || !wait(ctx) {
			return before
		}
	}
}

// attempt runs the commands once, and checks how they end and what they print.
func (p *player) attempt(step Step) (output string, err error) {
	once := p.session.run
	if step.Await || step.Fails {
		once = p.session.try
	}
	output, err = once(step.Script)
	switch {
	case step.Fails && err == nil:
		return output, errors.New("it was to fail, and did not")
	case !step.Fails && err != nil:
		return output, err
	}
	if line, _ := missing(output, step.Want); line != "" {
		return output, fmt.Errorf("it did not print %q", line)
	}
	return output, nil
}

// wait waits a moment, and reports whether there is time left.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

func (p *player) start(ctx context.Context, step Step) error {
	// Not with the step's context: it outlives the step, and is ended by close.
	started, err := p.session.start(context.WithoutCancel(ctx), step.Script)
	if err != nil {
		return err
	}
	p.running = append(p.running, started)
	return p.follow(ctx, step.Want)
}

// follow waits until the newest background command has printed the lines.
func (p *player) follow(ctx context.Context, want []string) error {
	newest := p.newest()
	if newest == nil {
		return errors.New("nothing runs in the background")
	}
	for {
		ended := newest.over()
		output, err := newest.fresh()
		if err != nil {
			return err
		}
		line, rest := missing(output, want)
		if line == "" {
			newest.seen += len(output) - len(rest)
			return nil
		}
		if ended || !wait(ctx) {
			return fmt.Errorf("the command in the background did not print %q (ended: %t)\n--- printed since the last check\n%s", line, ended, output)
		}
	}
}

func (p *player) interrupt(ctx context.Context) error {
	newest := p.newest()
	if newest == nil {
		return errors.New("nothing runs in the background")
	}
	if err := newest.interrupt(ctx); err != nil {
		return err
	}
	newest.kill()
	p.running = p.running[:len(p.running)-1]
	return nil
}

func (p *player) newest() *background {
	if len(p.running) == 0 {
		return nil
	}
	return p.running[len(p.running)-1]
}
