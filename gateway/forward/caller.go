// Package caller identifies who sends a request: by which address it counts, and how it is ended when it is too slow.
//
// Behind a proxy that is trusted, the address is the one that the proxy has seen. Any other proxy counts as one caller.
package forward

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/rouse-run/rouse/internal/httplimit"
)

// LeastRate is how many bytes of a body a second a caller has to send, beyond the time for which it may send nothing.
const LeastRate = 1 << 10

// ipv6Network is the part of an IPv6 address that one customer of a provider has.
const ipv6Network = 64

// Caller is who sends a request.
type Caller struct {
	httplimit.Client

	Key httplimit.Key
}

// KeyOf returns the key of an address, in IPv6 that of its network.
func KeyOf(address netip.Addr) httplimit.Key {
	address = address.WithZone("").Unmap()
	if address.Is6() {
		if network, err := address.Prefix(ipv6Network); err == nil {
			return httplimit.Key{Name: network.String()}
		}
	}
	return httplimit.Key{Name: address.String()}
}

// KeyOfConn returns the key of the address at the other end.
func KeyOfConn(c net.Conn) httplimit.Key { return keyOfPort(c.RemoteAddr().String()) }

// keyOfPort returns the key of an address with a port.
func keyOfPort(address string) httplimit.Key {
	if found, err := netip.ParseAddrPort(address); err == nil {
		return KeyOf(found.Addr())
	}
	return httplimit.Key{Name: address}
}

type contextKey struct{}

// With adds the caller of a request to its context.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// Of returns the caller of a request: the one of its context, or whoever is at the other end of its connection.
func Of(r *http.Request) Caller {
	if found, ok := r.Context().Value(contextKey{}).(*Caller); ok {
		return *found
	}
	return Caller{unmeasured{}, keyOfPort(r.RemoteAddr)}
}

// unmeasured is a caller whose pace is not known: it is never evicted.
type unmeasured struct{}

func (unmeasured) WaitsSince(int64) int64 { return 0 }
func (unmeasured) Evict()                 {}
