package endpoint

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/routing"
)

// Pool is the set of addresses of one Service, with a T for each. It keeps the gate.
type Pool[T any] struct {
	gate    *Gate
	options Options[T]

	mu      sync.Mutex
	known   map[string]*Member[T] // by address
	usable  []*Member[T]          // sorted by address, so that round-robin is even
	ready   bool                  // the Service itself leads somewhere
	next    int
	changed time.Time        // when the gate last opened or closed
	dial    func(*Member[T]) // dials until accepted; nil while Dial does not run
}

// Member is an address of a Pool.
type Member[T any] struct {
	// Value is what Options.Value has made for the address.
	Value T

	candidate
	address  string
	since    time.Time // when the address became known
	dialling bool
	inFlight int // requests that are not done yet
}

// Address is host:port.
func (m *Member[T]) Address() string { return m.address }

// NewPool makes a pool without addresses, whose gate is closed.
func NewPool[T any](options Options[T]) *Pool[T] {
	return &Pool[T]{gate: NewGate(false), options: options, changed: time.Now()}
}

// Gate is open while an address can be picked.
func (p *Pool[T]) Gate() *Gate { return p.gate }

// Apply takes the full set of endpoints. What is known of addresses that stay is kept.
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

// Pick counts a request at the address that has the fewest in flight; nil when there is no address. It ends with Done.
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

// Done ends a request that Pick counted.
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

// Refuse notes that an address did not accept a connection. It is left out until it accepts one of Dial, or its readiness changes.
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

// Ready reports whether an address passes its readiness probe and does not terminate, so that the Service itself leads there.
func (p *Pool[T]) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// Each calls do with what is kept for each address. The pool is locked meanwhile, so do must not call it.
func (p *Pool[T]) Each(do func(T)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.known {
		do(m.Value)
	}
}

func (p *Pool[T]) isKnown(m *Member[T]) bool { return p.known[m.address] == m }

// refresh computes what follows from the known addresses. The lock is held.
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

// gateChanged reports that the gate has opened or closed. Before are the addresses that were usable.
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

// update takes the news of the watcher. When readiness changes, what earlier connects have shown is stale.
func (c *candidate) update(endpoint routing.Endpoint) {
	if c.endpoint.Ready != endpoint.Ready {
		c.reach = untried
	}
	c.wasReady = c.wasReady || c.endpoint.Ready
	c.endpoint = endpoint
}

// ready reports whether the Service itself leads to the address.
func (c *candidate) ready() bool { return c.endpoint.Ready && !c.endpoint.Terminating }

// usable reports whether requests may be sent to the address.
func (c *candidate) usable() bool {
	if c.endpoint.Terminating || c.reach == refused {
		return false
	}
	return c.endpoint.Ready || c.reach == accepted
}

// worthDialling reports whether connecting may show that the address is usable: it refused although its probe
// passes, or it is a Function's that starts. One that lost its readiness waits for its probe.
func (c *candidate) worthDialling() bool {
	if c.endpoint.Terminating || c.usable() {
		return false
	}
	return c.endpoint.Ready || (c.endpoint.Function && !c.wasReady)
}

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

// leastLoaded finds one of the usable addresses: among those with the fewest requests in flight, the first from next on. So equal
// addresses are used round-robin. It is -1 when there is none. The lock is held.
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
