package sink

import (
	"context"
	"net"
	"sync"
	"time"
)

// dialler connects to addresses that are worth it until they accept.
type dialler struct {
	pool     *pool
	interval time.Duration
	dialer   *net.Dialer
}

// A connect that gets no answer is given up soon: the packet may have come before the pod's network was
// complete, and TCP repeats it only after a second. An address that stays down is tried less often.
const (
	probeTimeout  = 250 * time.Millisecond
	eagerFor      = 30 * time.Second
	probeInterval = time.Second
)

// run dials until ctx ends.
func (d *dialler) run(ctx context.Context) {
	var dials sync.WaitGroup
	defer dials.Wait()
	for {
		for _, m := range d.pool.startDials() {
			dials.Go(func() { d.dial(ctx, m) })
		}
		select {
		case <-ctx.Done():
			return
		case <-d.pool.dialNow:
		}
	}
}

// dial repeats until the address accepts, is not worth dialling any more, or ctx ends.
func (d *dialler) dial(ctx context.Context, m *member) {
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
		if conn, err := d.dialer.DialContext(ctx, "tcp", m.address); err == nil {
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

// startDials marks and returns the members that somebody should dial.
func (p *pool) startDials() []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	var start []*member
	for _, m := range p.known {
		if m.worthDialling() && !m.dialling {
			m.dialling = true
			start = append(start, m)
		}
	}
	return start
}

// keepDialling ends the dialling of a member that is no longer worth it.
func (p *pool) keepDialling(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.dialling = p.known[m.address] == m && m.worthDialling()
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
	if p.known[m.address] == m {
		m.reach = accepted
		p.refresh()
	}
}
