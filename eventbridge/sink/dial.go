package sink

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialler connects to addresses that are worth it until they accept. It costs nothing while there are none.
type dialler struct {
	pool     *pool
	interval time.Duration
	dialer   *net.Dialer
	dials    sync.WaitGroup
}

// A connect that gets no answer is given up soon: the packet may have come before the pod's network was
// complete, and TCP repeats it only after a second. An address that stays down is tried less often.
const (
	probeTimeout  = 250 * time.Millisecond
	eagerFor      = 30 * time.Second
	probeInterval = time.Second
)

// start dials from now on, also what is worth it already, until stop is called. Both are called once; ctx has to end
// before stop.
func (d *dialler) start(ctx context.Context) {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	d.pool.dial = func(m *member) {
		address := m.endpoint.Address // the lock is held
		d.dials.Go(func() { d.run(ctx, address, m) })
	}
	d.pool.startDials()
}

// stop returns when nothing is dialled any more.
func (d *dialler) stop() {
	d.pool.mu.Lock()
	d.pool.dial = nil
	d.pool.mu.Unlock()
	d.dials.Wait()
}

// run repeats until the address accepts, is not worth dialling any more, or ctx ends.
func (d *dialler) run(ctx context.Context, address string, m *member) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for started := time.Now(); ; {
		select {
		case <-ctx.Done():
			d.pool.stopDialling(m)
			return
		case <-timer.C:
		}
		if !d.pool.keepDialling(m) {
			return
		}
		if conn, err := d.dialer.DialContext(ctx, "tcp", address); err == nil {
			_ = conn.Close()
			d.pool.dialAccepted(m)
			return
		}
		if time.Since(started) < eagerFor {
			timer.Reset(d.interval)
		} else {
			timer.Reset(probeInterval)
		}
	}
}

// startDials starts a goroutine for each member that is worth dialling. The lock is held.
func (p *pool) startDials() {
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

// keepDialling ends the dialling of a member that is no longer worth it.
func (p *pool) keepDialling(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.dialling = p.isKnown(m) && m.worthDialling()
	return m.dialling
}

func (p *pool) stopDialling(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.dialling = false
}

// dialAccepted ends the dialling of a member that accepted a connection.
func (p *pool) dialAccepted(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.dialling = false
	if p.isKnown(m) {
		m.reach = accepted
		p.refresh()
	}
}
