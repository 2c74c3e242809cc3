package endpoint

import (
	"context"
	"net"
	"sync"
	"time"
)

// ProbeTimeout is the timeout that a Dialer of Options should have. A connect that gets no answer is given up soon: the packet
// may have come before the pod's network was complete, and TCP repeats it only after a second.
const ProbeTimeout = 250 * time.Millisecond

// Options say what a Pool keeps for its addresses and how it dials them.
type Options[T any] struct {
	// Value makes what is kept for an address, when the address becomes known. Nil keeps the zero value.
	Value func(address string) T
	// OnGate is called when the gate has opened or closed; it may be nil. The pool is locked meanwhile, so it must not call it.
	OnGate func(Change)
	// OnUsable is called with the number of addresses that can be picked, when that may have changed; it may be nil. The pool is
	// locked meanwhile, so it must not call it.
	OnUsable func(int)
	// AwaitReady leaves addresses of starting Functions alone until their readiness probes pass, as a Service does.
	AwaitReady bool
	// DialInterval parts two connects to an address that is not up yet.
	DialInterval time.Duration
	// Dialer connects to such an address. It may be shared.
	Dialer *net.Dialer
}

// Change is one of a gate.
type Change struct {
	// Open is true when the gate has opened.
	Open bool
	// Address is the one that opened the gate, or the last that could be used.
	Address string
	// Waited is the time since the address that opened the gate became known.
	Waited time.Duration
	// Lasted is the time that the gate was in its previous state.
	Lasted time.Duration
}

// An address that stays down is tried less often.
const (
	eagerFor      = 30 * time.Second
	probeInterval = time.Second
)

// Dial connects from now on to the addresses that are worth it until they accept, also to those that are known already. It ends
// with ctx or stop, which returns when nothing is dialled any more and has to be called before Dial is called again.
func (p *Pool[T]) Dial(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var dials sync.WaitGroup
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dial = func(m *Member[T]) { dials.Go(func() { p.dialUntilAccepted(ctx, m) }) }
	p.startDials()
	return func() {
		cancel()
		p.mu.Lock()
		p.dial = nil
		p.mu.Unlock()
		dials.Wait()
	}
}

// startDials starts a goroutine for each member that is worth dialling. The lock is held.
func (p *Pool[T]) startDials() {
	if p.dial == nil {
		return
	}
	for _, m := range p.known {
		if m.worthDialling() && !m.dialling {
			m.dialling = true
			p.dial(m)
		}
	}
}

// dialUntilAccepted repeats until the address accepts, is not worth dialling any more, or ctx ends.
func (p *Pool[T]) dialUntilAccepted(ctx context.Context, m *Member[T]) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for started := time.Now(); ; {
		select {
		case <-ctx.Done():
			p.stopDialling(m)
			return
		case <-timer.C:
		}
		if !p.keepDialling(m) {
			return
		}
		if conn, err := p.options.Dialer.DialContext(ctx, "tcp", m.address); err == nil {
			_ = conn.Close()
			p.dialAccepted(m)
			return
		}
		if time.Since(started) < eagerFor {
			timer.Reset(p.options.DialInterval)
		} else {
			timer.Reset(probeInterval)
		}
	}
}

// keepDialling ends the dialling of a member that is no longer worth it.
func (p *Pool[T]) keepDialling(m *Member[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.dialling = p.isKnown(m) && m.worthDialling()
	return m.dialling
}

func (p *Pool[T]) stopDialling(m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.dialling = false
}

// dialAccepted ends the dialling of a member that accepted a connection.
func (p *Pool[T]) dialAccepted(m *Member[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.dialling = false
	if p.isKnown(m) {
		m.reach = accepted
		p.refresh()
	}
}
