package sink

import (
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/routing"
)

// pool is the set of addresses of one sink. It keeps the gate.
type pool struct {
	gate     *Gate
	openness Openness // may be nil
	log      logr.Logger
	sink     *url.URL
	service  bool // events go to the Service, which leads only to pods that are ready

	mu      sync.Mutex
	known   map[string]*member // by address
	usable  []*member          // sorted by address, so that round-robin is even
	next    int
	changed time.Time     // when the gate last opened or closed
	dial    func(*member) // dials until accepted; nil while no dialler runs
}

// member is a candidate in a pool.
type member struct {
	candidate
	url      *url.URL  // of the sink at this address
	since    time.Time // when the address became known
	dialling bool
	inFlight int // requests that have no answer yet
	connPool connPool
}

func newPool(sink *url.URL, service bool, openness Openness, log logr.Logger) *pool {
	if openness != nil {
		openness.Set(0)
	}
	return &pool{gate: newGate(), openness: openness, log: log, sink: sink, service: service, changed: time.Now()}
}

// apply takes the full set of endpoints.
func (p *pool) apply(endpoints []routing.Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stale := p.known
	p.known = nil
	if len(endpoints) > 0 {
		p.known = make(map[string]*member, len(endpoints))
	}
	for _, endpoint := range endpoints {
		if p.service {
			endpoint.Function = false // before its probe passes, the Service does not lead there
		}
		m := stale[endpoint.Address]
		if m == nil {
			at := *p.sink
			at.Host = endpoint.Address
			m = &member{url: &at, since: time.Now()}
			m.endpoint = endpoint
		}
		m.update(endpoint)
		p.known[endpoint.Address] = m
	}
	p.refresh()
}

// pick counts a request at the address that has the fewest in flight; nil when there is no address. It ends with done.
func (p *pool) pick() *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := leastLoaded(len(p.usable), p.next, func(i int) int { return p.usable[i].inFlight })
	if i < 0 {
		return nil
	}
	p.next = i + 1
	p.usable[i].inFlight++
	return p.usable[i]
}

// done ends a request that pick counted.
func (p *pool) done(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.inFlight--
}

// refuse notes that an address did not accept a connection.
func (p *pool) refuse(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isKnown(m) {
		m.reach = refused
		p.refresh()
	}
}

// closeIdle closes the connections that are kept. Those of addresses that are gone expire.
func (p *pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.known {
		m.connPool.close()
	}
}

func (p *pool) isKnown(m *member) bool { return p.known[m.endpoint.Address] == m }

// refresh computes what follows from the known addresses.
func (p *pool) refresh() {
	before := p.usable
	p.usable = nil
	for _, m := range p.known {
		if m.usable() {
			p.usable = append(p.usable, m)
		}
	}
	slices.SortFunc(p.usable, func(a, b *member) int { return strings.Compare(a.endpoint.Address, b.endpoint.Address) })
	p.startDials()
	if !p.gate.set(len(p.usable) > 0) {
		return
	}
	openness, now := 0.0, time.Now()
	if len(p.usable) > 0 {
		openness = 1
		first := p.usable[0]
		p.log.Info("gate opened", "sink", routing.ShownSink(p.sink.String()), "address", first.endpoint.Address, "waited", now.Sub(first.since).String(),
			"closedFor", now.Sub(p.changed).String())
	} else {
		p.log.Info("gate closed", "sink", routing.ShownSink(p.sink.String()), "address", before[0].endpoint.Address, "openFor", now.Sub(p.changed).String())
	}
	p.changed = now
	if p.openness != nil {
		p.openness.Set(openness)
	}
}
