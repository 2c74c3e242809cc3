package dev

import (
	"context"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/dev/view"
)

// preparePoll is how often it is checked whether everything is up, when nothing signals a change.
const preparePoll = time.Second

// show runs what the user sees, and beside it what was asked for at the start.
func (m *mode) show(ctx context.Context) error {
	if m.options.Once {
		return m.once(ctx)
	}
	return together(ctx,
		func(ctx context.Context) error {
			if m.options.Plain {
				return view.Plain(ctx, m.source, m.options.Out)
			}
			return view.Terminal(ctx, m.source, m.options.In, m.options.Out)
		},
		func(ctx context.Context) error {
			if m.awaitUp(ctx) {
				m.logLine(fmt.Sprintf("up after %.1f s", time.Since(m.started).Seconds()))
				m.publishFirst(ctx)
			}
			<-ctx.Done()
			return nil
		},
	)
}

// publishFirst publishes the events of --publish. Each run does so with ids of its own: what the one before published is
// still known, and would be stored once.
func (m *mode) publishFirst(ctx context.Context) {
	if len(m.events) == 0 {
		return
	}
	text, err := m.source.Republish(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.logLine("--publish: " + err.Error())
	default:
		m.logLine(text)
	}
}

// awaitUp waits until every Subscription has its consumer and no Function is being prepared. It is false when ctx ends.
func (m *mode) awaitUp(ctx context.Context) bool {
	for {
		settled, changed := m.subs.Settled(), m.functions.Changed()
		select {
		case <-ctx.Done():
			return false
		case <-settled:
		}
		if !m.preparing() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-time.After(preparePoll):
		}
	}
}

func (m *mode) preparing() bool {
	for _, status := range m.functions.Status() {
		if status.Phase == runner.Preparing {
			return true
		}
	}
	return false
}
