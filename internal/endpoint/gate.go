package endpoint

import (
	"context"
	"sync"
)

// Gate is open while requests can be taken.
type Gate struct {
	mu     sync.Mutex
	open   bool
	opened chan struct{} // closed while the gate is open
	closed chan struct{} // closed while the gate is closed
}

// NewGate makes a gate that stays as it is. That of a Pool opens and closes.
func NewGate(open bool) *Gate {
	g := &Gate{open: open, opened: make(chan struct{}), closed: make(chan struct{})}
	if open {
		close(g.opened)
	} else {
		close(g.closed)
	}
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
