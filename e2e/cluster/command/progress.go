package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// signOfLife is the interval at which a long step reports that it is still running.
const signOfLife = 30 * time.Second

// Progress prints the steps of one command. Steps may run concurrently.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

// NewProgress starts the clock.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, start: time.Now()}
}

// StepError is the error of a failed step.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

func (e *StepError) Unwrap() error { return e.Err }

// Detail sets a short description of a running step's result.
type Detail func(format string, args ...any)

// Step runs one step and prints its line.
func (p *Progress) Step(ctx context.Context, name string, run func(context.Context, Detail) error) error {
	began := time.Now()
	var mu sync.Mutex
	var detail string
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		detail = fmt.Sprintf(format, args...)
	}
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return detail
	}
	stop := make(chan struct{})
	var alive sync.WaitGroup
	alive.Go(func() { p.keepAlive(stop, name, began, said) })
	err := run(ctx, say)
	close(stop)
	alive.Wait()
	if err != nil {
		p.line("FAIL", name, said(), time.Since(began))
		return &StepError{Step: name, Err: err}
	}
	p.line("ok", name, said(), time.Since(began))
	return nil
}

func (p *Progress) keepAlive(stop <-chan struct{}, name string, began time.Time, said func() string) {
	ticker := time.NewTicker(signOfLife)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			p.line("...", name, said(), time.Since(began))
		}
	}
}

func (p *Progress) line(mark, name, detail string, took time.Duration) {
	p.Printf("%-4s %-22s %-62s %7.1fs\n", mark, name, shorten(detail, 62), took.Seconds())
}

// Printf writes to the output of the steps, never into the middle of a line.
func (p *Progress) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = fmt.Fprintf(p.out, format, args...)
}

// Elapsed returns the time since New.
func (p *Progress) Elapsed() time.Duration { return time.Since(p.start) }

// Explain prints a failure for a user: the step, the cause, and the end of the relevant log.
func (p *Progress) Explain(err error) {
	if errors.Is(err, context.Canceled) {
		p.Printf("\ninterrupted\n")
		return
	}
	if step, ok := errors.AsType[*StepError](err); ok {
		p.Printf("\nfailed in step %q:\n  %s\n", step.Step, strings.ReplaceAll(step.Err.Error(), "\n", "\n  "))
	} else {
		p.Printf("\nfailed: %v\n", err)
	}
	var failed *Error
	if !errors.As(err, &failed) || failed.Tail == "" {
		return
	}
	from := "its output"
	if failed.Log != "" {
		from = failed.Log
	}
	p.Printf("\nend of %s:\n  | %s\n", from, strings.ReplaceAll(failed.Tail, "\n", "\n  | "))
}

func shorten(text string, limit int) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > limit {
		return text[:limit-3] + "..."
	}
	return text
}
