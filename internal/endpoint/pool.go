package endpoint

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/routing"
)

// Pool is the set of addresses of one Service, with a T for each, and its gate.
type Pool[T any] struct {
	gate    *Gate
	options Options[T]

	mu      sync.Mutex
	known   map[string]*Member[T] // by address
	usable  []*Member[T]          // sorted by address, so that round-robin is even
	ready   bool                  // the Service itself has a ready endpoint
	next    int
	changed time.Time        // when the gate last opened or closed
	dial    func(*Member[T]) // dials until accepted; nil while Dial does not run
}

// Member is an address of a Pool.
type Member[T any] struct {
	// Value is the result of Options.Value for the address.
	Value T

	candidate
	address  string
	since    time.Time // when the address became known
	dialling bool
	inFlight int // requests in progress
}

// Address returns host:port.
func (m *Member[T]) Address() string { return m.address }

// NewPool makes a pool without addresses, whose gate is closed.
func NewPool[T any](options Options[T]) *Pool[T] {
	return &Pool[T]{gate: NewGate(false), options: options, changed: time.Now()}
}

// Gate is open while an address can be picked.
func (p *Pool[T]) Gate() *Gate { return p.gate }

// Apply replaces the set of endpoints. The state of remaining addresses is kept.
func (p *Pool[T]) Apply(endpoints []routing.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stale := p.known
	p.known = nil
	if len(endpoints) > 0 {
		p.known = make(map[string]*Member[T], len(endpoints))
	}
	for _, endpoint := range endpoints {
		if p.options.AwaitReady {
			endpoint.Function = false
		}
		m := stale[endpoint.Address]
		if m == nil {
			m = p.newMember(endpoint)
		}
		m.update(endpoint)
		p.known[endpoint.Address] = m
	}
	p.refresh()
}

func (p *Pool[T]) newMember(endpoint routing.Endpoint) *Member[T] {
	m := &Member[T]{candidate: candidate{endpoint: endpoint}, address: endpoint.Address, since: time.Now()}
	if p.options.Value != nil {
		m.Value = p.options.Value(endpoint.Address)
	}
	return m
}

// Pick returns the address with the fewest requests in flight and counts a request to it; nil when there is no usable
// address. The caller ends the request with Done.
func (p *Pool[T]) Pick() *Member[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.leastLoaded()
	if i < 0 {
		return nil
	}
	p.next = i + 1
	p.usable[i].inFlight++
	return p.usable[i]
}

// Done ends a request counted by Pick.
func (p *Pool[T]) Done(m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.inFlight--
}

// InFlight returns the number of requests in flight to an address.
func (p *Pool[T]) InFlight(m *Member[T]) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m.inFlight
}

// Refuse records that an address did not accept a connection. The address is not picked until it accepts a connection
// of Dial, or its readiness changes.
func (p *Pool[T]) Refuse(m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isKnown(m) {
		m.reach = refused
		p.refresh()
	}
}

// Usable returns the number of addresses that can be picked.
func (p *Pool[T]) Usable() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.usable)
}

// Ready reports whether an address passes its readiness probe and does not terminate, so that the Service has a ready
// endpoint.
func (p *Pool[T]) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// Each calls do with the value of each address. The pool is locked during the calls, so do must not call it.
func (p *Pool[T]) Each(do func(T)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.known {
		do(m.Value)
	}
}

func (p *Pool[T]) isKnown(m *Member[T]) bool { return p.known[m.address] == m }

// refresh recomputes the state that is derived from the known addresses. The lock is held.
func (p *Pool[T]) refresh() {
	before := p.usable
	p.usable, p.ready = nil, false
	for _, m := range p.known {
		if m.usable() {
			p.usable = append(p.usable, m)
		}
		p.ready = p.ready || m.ready()
	}
	slices.SortFunc(p.usable, func(a, b *Member[T]) int { return strings.Compare(a.address, b.address) })
	p.startDials()
	if p.options.OnUsable != nil {
		p.options.OnUsable(len(p.usable))
	}
	if open := len(p.usable) > 0; p.gate.set(open) {
		p.gateChanged(open, before)
	}
}

// gateChanged reports that the gate has opened or closed. before holds the addresses that were usable.
func (p *Pool[T]) gateChanged(open bool, before []*Member[T]) {
	now := time.Now()
	change := Change{Open: open, Lasted: now.Sub(p.changed)}
	if open {
		change.Address, change.Waited = p.usable[0].address, now.Sub(p.usable[0].since)
	} else {
		change.Address = before[0].address
	}
	p.changed = now
	if p.options.OnGate != nil {
		p.options.OnGate(change)
	}
}

// reach is the result of the last connection attempt to an address.
type reach int

const (
	untried reach = iota
	accepted
	refused
)

// candidate is the state of one address.
type candidate struct {
	endpoint routing.Endpoint
	wasReady bool // a readiness probe has passed before
	reach    reach
}

// update applies an event of the watch. When readiness changes, the results of earlier connection attempts are stale.
func (c *candidate) update(endpoint routing.Endpoint) {
	if c.endpoint.Ready != endpoint.Ready {
		c.reach = untried
	}
	c.wasReady = c.wasReady || c.endpoint.Ready
	c.endpoint = endpoint
}

// ready reports whether the Service itself routes to the address.
func (c *candidate) ready() bool { return c.endpoint.Ready && !c.endpoint.Terminating }

// usable reports whether requests may be sent to the address.
func (c *candidate) usable() bool {
	if c.endpoint.Terminating || c.reach == refused {
		return false
	}
	return c.endpoint.Ready || c.reach == accepted
}

// worthDialling reports whether connecting may show that the address is usable: it refused although its probe passes,
// or it is the address of a starting Function. An address that lost its readiness waits for its probe.
func (c *candidate) worthDialling() bool {
	if c.endpoint.Terminating || c.usable() {
		return false
	}
	return c.endpoint.Ready || (c.endpoint.Function && !c.wasReady)
}

// Gate is open while there is a usable address.
type Gate struct {
	mu     sync.Mutex
	open   bool
	opened chan struct{} // closed while the gate is open
	closed chan struct{} // closed while the gate is closed
}

// NewGate returns a gate with a fixed state. Only the gate of a Pool opens and closes.
func NewGate(open bool) *Gate {
	g := &Gate{open: open, opened: make(chan struct{}), closed: make(chan struct{})}
	if open {
		close(g.opened)
	} else {
		close(g.closed)
	}
	return g
}

// IsOpen reports whether the gate is open.
func (g *Gate) IsOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Wait blocks until the gate is open. The returned channel is closed when the gate closes.
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

// set sets the state and reports whether it changed.
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

// leastLoaded returns the index of the usable address with the fewest requests in flight, the first from next on, so
// that equally loaded addresses are used round-robin. It returns -1 when there is none. The lock is held.
func (p *Pool[T]) leastLoaded() int {
	best, least, n := -1, 0, len(p.usable)
	for step := range n {
		i := (p.next + step) % n
		if load := p.usable[i].inFlight; best < 0 || load < least {
			best, least = i, load
		}
	}
	return best
}
