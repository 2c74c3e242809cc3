package endpoint

import (
	"context"
	"net"
	"sync"
	"time"
)

// ProbeTimeout is the recommended timeout of the Dialer in Options. It is short because an unanswered packet may have
// been sent before the pod's network was complete, and TCP retransmits only after a second.
const ProbeTimeout = 250 * time.Millisecond

// Options configure a Pool.
type Options[T any] struct {
	// Value makes the value of an address when the address becomes known. Nil leaves the zero value.
	Value func(address string) T
	// OnGate is called after the gate opened or closed; it may be nil. It is called with the pool locked and must not
	// call the pool.
	OnGate func(Change)
	// OnUsable is called with the number of usable addresses when it may have changed; it may be nil. It is called with
	// the pool locked and must not call the pool.
	OnUsable func(int)
	// AwaitReady disables dialling of starting Functions: their addresses become usable when their readiness probes
	// pass, as with a Service.
	AwaitReady bool
	// DialInterval is the time between two attempts to connect to an address.
	DialInterval time.Duration
	// Dialer is used to connect. It may be shared.
	Dialer *net.Dialer
}

// Change is a change of a gate.
type Change struct {
	// Open is true when the gate has opened.
	Open bool
	// Address is the address that opened the gate, or the last usable one.
	Address string
	// Waited is the time since the address that opened the gate became known.
	Waited time.Duration
	// Lasted is the time that the gate was in its previous state.
	Lasted time.Duration
}

// An address that stays unreachable is tried less often.
const (
	eagerFor      = 30 * time.Second
	probeInterval = time.Second
)

// Dial starts connecting to the addresses worth dialling until they accept, including those that are already known. It
// ends with ctx or stop, which blocks until all attempts have ended and has to be called before Dial is called again.
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

// dialUntilAccepted repeats until the address accepts, is no longer worth dialling, or ctx ends.
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

// keepDialling ends the dialling of a member that is no longer worth dialling.
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
