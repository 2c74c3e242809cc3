package entrance

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// ipv6Share is the part of an IPv6 address that one customer of a provider has.
const ipv6Share = 64

// client is an address that has connections.
type client struct {
	address  netip.Addr
	trusted  bool
	conns    int // guarded by clients
	requests atomic.Int64
}

// clients counts what each address has.
type clients struct {
	trusted     []netip.Prefix
	connections int // that an address may have
	requests    int64
	maxRequests int64 // of all

	running atomic.Int64
	mu      sync.Mutex
	open    map[netip.Addr]*client
}

// newClients gives an address half of everything, or all where that is only one.
func newClients(most int, trusted []netip.Prefix) *clients {
	half := (most + 1) / 2
	return &clients{trusted: trusted, connections: half, requests: int64(half), maxRequests: int64(most), open: map[netip.Addr]*client{}}
}

// connect counts a connection of an address. It is nil when that has as many as it may have.
func (c *clients) connect(address netip.Addr) *client {
	address = address.WithZone("").Unmap()
	trusted := slices.ContainsFunc(c.trusted, func(p netip.Prefix) bool { return p.Contains(address) })
	if address.Is6() && !trusted {
		if network, err := address.Prefix(ipv6Share); err == nil {
			address = network.Addr()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.open[address]
	switch {
	case found == nil:
		found = &client{address: address, trusted: trusted}
		c.open[address] = found
	case !trusted && found.conns >= c.connections:
		return nil
	}
	found.conns++
	return found
}

func (c *clients) disconnect(of *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of.conns--; of.conns == 0 {
		delete(c.open, of.address)
	}
}

// begin counts a request. It is false when there are too many of its address, or at all.
func (c *clients) begin(of *client) bool {
	own := of.requests.Add(1)
	if c.running.Add(1) > c.maxRequests || (own > c.requests && !of.trusted) {
		c.end(of)
		return false
	}
	return true
}

func (c *clients) end(of *client) {
	c.running.Add(-1)
	of.requests.Add(-1)
}
