package dialguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// ErrDenied means that no connection to the address is made for a tenant.
var ErrDenied = errors.New("the address is loopback, link-local, multicast or metadata, or the operator denies it")

// Guard decides which addresses may be dialled. Its zero value is the strictest policy without an operator's networks.
type Guard struct {
	// Denied are networks that are denied besides the built-in ones.
	Denied []netip.Prefix
	// AllowLoopback is for processes that run on the tenant's own machine, and for tests.
	AllowLoopback bool
}

// ParseDenied parses networks in CIDR notation.
func ParseDenied(networks []string) ([]netip.Prefix, error) {
	found := make([]netip.Prefix, 0, len(networks))
	for _, text := range networks {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is not a network: write it as 10.0.0.0/8 or fd00::/8, a single address as 10.0.0.1/32", text)
		case prefix.Addr().Is4In6():
			return nil, fmt.Errorf("%q is IPv4 in the form of IPv6: write it as IPv4", text)
		}
		found = append(found, prefix.Masked())
	}
	return found, nil
}

// Dialer returns a dialer that checks addresses after names are resolved.
func (g Guard) Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(address)
		if err != nil || !g.Allows(resolved.Addr()) {
			return ErrDenied
		}
		return nil
	}}
}

// CheckLiteral returns an error for a host that is a denied IP address, without dialling.
func (g Guard) CheckLiteral(host string) error {
	if address, err := netip.ParseAddr(host); err == nil && !g.Allows(address) {
		return ErrDenied
	}
	return nil
}

// checkHost returns an error for a host that a proxy must not connect to. A name that only the proxy can resolve
// passes.
func (g Guard) checkHost(ctx context.Context, host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return g.CheckLiteral(host)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && slices.ContainsFunc(addresses, func(address netip.Addr) bool { return !g.Allows(address) }) {
		return ErrDenied
	}
	return nil
}

// Transport returns a transport with the given settings. It guards every direct connection, and the requested host of
// connections through the settings' proxy.
func (g Guard) Transport(settings *http.Transport, dialTimeout time.Duration) *Transport {
	direct, proxied := settings.Clone(), settings.Clone()
	direct.Proxy, direct.DialContext = nil, g.Dialer(dialTimeout).DialContext
	proxied.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	return &Transport{guard: g, direct: direct, proxied: proxied}
}

// Transport is an http.RoundTripper protected by a Guard.
type Transport struct {
	guard           Guard
	direct, proxied *http.Transport
}

// RoundTrip implements http.RoundTripper. It is called again for each redirect.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.proxied.Proxy == nil {
		return t.direct.RoundTrip(request)
	}
	proxy, err := t.proxied.Proxy(request)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find the proxy: %w", err)
	case proxy == nil:
		return t.direct.RoundTrip(request)
	}
	if err := t.guard.checkHost(request.Context(), request.URL.Hostname()); err != nil {
		return nil, err
	}
	return t.proxied.RoundTrip(request)
}

// CloseIdleConnections closes the idle connections.
func (t *Transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// never returns the addresses that no Git server and no registry of a tenant has, besides those that net/netip
// classifies.
func never() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),              // this network
		netip.MustParsePrefix("240.0.0.0/4"),            // reserved, and broadcast
		netip.MustParsePrefix("100.100.100.200/32"),     // metadata of Alibaba Cloud
		netip.MustParsePrefix("168.63.129.16/32"),       // Azure's channel to its machines
		netip.MustParsePrefix("192.0.0.192/32"),         // metadata of Oracle Cloud
		netip.MustParsePrefix("fd00:ec2::/32"),          // AWS: metadata, and credentials of pods
		netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // metadata of Oracle Cloud
		netip.MustParsePrefix("fd20:ce::254/128"),       // metadata of Google Cloud
		netip.MustParsePrefix("::/96"),                  // IPv4 in a form that is no longer used
		netip.MustParsePrefix("2001::/32"),              // Teredo, which carries IPv4
		netip.MustParsePrefix("64:ff9b:1::/48"),         // NAT64 of a network's own, which alone knows where IPv4 is in it
	}
}

// carriers returns the prefixes of addresses that embed an IPv4 address, with its offset in bytes.
func carriers() map[netip.Prefix]int {
	return map[netip.Prefix]int{
		netip.MustParsePrefix("64:ff9b::/96"):    12, // NAT64 (RFC 6052)
		netip.MustParsePrefix("::ffff:0:0:0/96"): 12, // SIIT (RFC 7915)
		netip.MustParsePrefix("2002::/16"):       2,  // 6to4 (RFC 3056)
	}
}

// Allows reports whether a tenant may have this process connect to an address.
func (g Guard) Allows(address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	if !g.allows(address) {
		return false
	}
	for prefix, at := range carriers() {
		if prefix.Contains(address) {
			bytes := address.As16()
			return g.allows(netip.AddrFrom4([4]byte(bytes[at : at+4])))
		}
	}
	return true
}

func (g Guard) allows(address netip.Addr) bool {
	contains := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
	if slices.ContainsFunc(g.Denied, contains) {
		return false
	}
	if g.AllowLoopback && address.IsLoopback() {
		return true
	}
	return address.IsValid() && !address.IsLoopback() && !address.IsLinkLocalUnicast() && !address.IsMulticast() &&
		!slices.ContainsFunc(never(), contains)
}
