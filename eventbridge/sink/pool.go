package sink

import (
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/internal/routing"
)

// pool is the set of addresses of one sink. It keeps the gate.
type pool struct {
	gate     *Gate
	openness prometheus.Gauge // 1 while the gate is open; may be nil
	log      logr.Logger
	dialNow  chan struct{} // asks for a look at what is worth dialling

	mu      sync.Mutex
	known   map[string]*member
	usable  []string // sorted, so that round robin is even
	turn    int
	changed time.Time // when the gate last opened or closed
}

// member is a candidate in a pool.
type member struct {
	candidate
	address  string
	since    time.Time // when the address became known
	dialling bool
}

func newPool(openness prometheus.Gauge, log logr.Logger) *pool {
	if openness != nil {
		openness.Set(0)
	}
	return &pool{
		gate: newGate(), openness: openness, log: log, dialNow: make(chan struct{}, 1),
		known: map[string]*member{}, changed: time.Now(),
	}
}

// apply takes the full set of endpoints.
func (p *pool) apply(endpoints []routing.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stale := p.known
	p.known = make(map[string]*member, len(endpoints))
	for _, endpoint := range endpoints {
		m := stale[endpoint.Address]
		if m == nil {
			m = &member{address: endpoint.Address, since: time.Now()}
			m.endpoint = endpoint
		}
		m.update(endpoint)
		p.known[endpoint.Address] = m
	}
	p.refresh()
}

// refuse notes that an address did not accept a connection.
func (p *pool) refuse(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.known[address]; m != nil {
		m.reach = refused
		p.refresh()
	}
}

// pick is the next address to send to, "" when there is none.
func (p *pool) pick() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.usable) == 0 {
		return ""
	}
	p.turn++
	return p.usable[p.turn%len(p.usable)]
}

// refresh computes what follows from the known addresses.
func (p *pool) refresh() {
	before := p.usable
	p.usable = nil
	for address, m := range p.known {
		if m.usable() {
			p.usable = append(p.usable, address)
		} else if m.worthDialling() && !m.dialling {
			select {
			case p.dialNow <- struct{}{}:
			default:
			}
		}
	}
	slices.Sort(p.usable)
	if !p.gate.set(len(p.usable) > 0) {
		return
	}
	openness, now := 0.0, time.Now()
	if len(p.usable) > 0 {
		openness = 1
		first := p.known[p.usable[0]]
		p.log.Info("gate opened", "address", first.address, "waited", now.Sub(first.since).String(),
			"closedFor", now.Sub(p.changed).String())
	} else {
		p.log.Info("gate closed", "address", before[0], "openFor", now.Sub(p.changed).String())
	}
	p.changed = now
	if p.openness != nil {
		p.openness.Set(openness)
	}
}
