package sink

import (
	"context"
	"sync"
)

// Openness shows whether a gate is open.
type Openness interface {
	// Set is called with 1 when the gate opens and with 0 when it closes.
	Set(value float64)
}

// Gate is open while the sink can take deliveries.
type Gate struct {
	mu     sync.Mutex
	open   bool
	opened chan struct{} // closed while the gate is open
	closed chan struct{} // closed while the gate is closed
}

func newGate() *Gate {
	g := &Gate{opened: make(chan struct{}), closed: make(chan struct{})}
	close(g.closed)
	return g
}

// IsOpen reports the present state.
func (g *Gate) IsOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Wait blocks until the gate is open. The channel it returns is closed when the gate closes.
func (g *Gate) Wait(ctx context.Context) (<-chan struct{}, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g.mu.Lock()
		open, opened, closed := g.open, g.opened, g.closed
		g.mu.Unlock()
		if open {
			return closed, nil
		}
		select {
		case <-ctx.Done():
		case <-opened:
		}
	}
}

// set reports whether the state changed.
func (g *Gate) set(open bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == open {
		return false
	}
	g.open = open
	if open {
		g.closed = make(chan struct{})
		close(g.opened)
	} else {
		g.opened = make(chan struct{})
		close(g.closed)
	}
	return true
}
