package dispatchtest

import (
	"context"
	"maps"
	"net/http"
	"sync"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Sink records what it is sent and answers by a function.
type Sink struct {
	mu       sync.Mutex
	answer   func(ctx context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error)
	attempts map[string]int
	busy     int
	peak     int
}

// NewSink answers by the given function, 204 when it is nil. attempt counts from 1 for each event id.
func NewSink(answer func(ctx context.Context, ev cloudevent.Event, attempt int) (dispatch.Answer, error)) *Sink {
	return &Sink{answer: answer, attempts: map[string]int{}}
}

// Send implements dispatch.Sink.
func (s *Sink) Send(ctx context.Context, ev *cloudevent.Event) (dispatch.Answer, error) {
	s.mu.Lock()
	s.attempts[ev.ID]++
	attempt := s.attempts[ev.ID]
	s.busy++
	s.peak = max(s.peak, s.busy)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
	}()
	if s.answer == nil {
		return Status(http.StatusNoContent), nil
	}
	return s.answer(ctx, *ev, attempt)
}

// Status is an answer without a body.
func Status(status int) dispatch.Answer { return dispatch.Answer{Status: status} }

// Attempts says how often each event was sent.
func (s *Sink) Attempts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.attempts)
}

// Busy is the number of calls that run.
func (s *Sink) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// Peak is the highest number of calls that ever ran at the same time.
func (s *Sink) Peak() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Gate is a gate that tests open and close.
type Gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed while the gate is open
	closed chan struct{} // closed while the gate is closed
}

// NewGate makes a gate that is open or not.
func NewGate(open bool) *Gate {
	g := &Gate{opened: make(chan struct{}), closed: make(chan struct{})}
	close(g.closed)
	if open {
		g.Open()
	}
	return g
}

// Open lets Wait return.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
	close(g.opened)
}

// Close makes Wait block.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
	close(g.closed)
}

// Wait implements dispatch.Gate.
func (g *Gate) Wait(ctx context.Context) (<-chan struct{}, error) {
	g.mu.Lock()
	opened, closed := g.opened, g.closed
	g.mu.Unlock()
	select {
	case <-opened:
		return closed, ctx.Err()
	default:
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-opened:
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.closed, ctx.Err()
	}
}
