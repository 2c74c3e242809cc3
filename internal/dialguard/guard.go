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

// ErrDenied means that an address is one to which no connection is made for a tenant.
var ErrDenied = errors.New("the address is loopback, link-local, multicast or metadata, or the operator denies it")

// Guard decides which addresses may be dialled. Its zero value is the strictest that needs no operator.
type Guard struct {
	// Denied are networks that are refused besides those that always are.
	Denied []netip.Prefix
	// AllowLoopback is for a process whose user is the tenant, and for tests.
	AllowLoopback bool
}

// ParseDenied reads networks in CIDR notation.
func ParseDenied(networks []string) ([]netip.Prefix, error) {
	found := make([]netip.Prefix, 0, len(networks))
	for _, text := range networks {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is no network: write it as 10.0.0.0/8 or fd00::/8, a single address as 10.0.0.1/32", text)
		case prefix.Addr().Is4In6():
			return nil, fmt.Errorf("%q is IPv4 in the form of IPv6: write it as IPv4", text)
		}
		found = append(found, prefix.Masked())
	}
	return found, nil
}

// Dialer refuses after names are resolved.
func (g Guard) Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(address)
		if err != nil || !g.Allows(resolved.Addr()) {
			return ErrDenied
		}
		return nil
	}}
}

// CheckLiteral refuses a host that is a denied address itself, so that nothing has to be dialled to learn it.
func (g Guard) CheckLiteral(host string) error {
	if address, err := netip.ParseAddr(host); err == nil && !g.Allows(address) {
		return ErrDenied
	}
	return nil
}

// checkHost refuses a host to which a proxy is to connect. A name that only the proxy can resolve passes.
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

// Transport sends requests as the settings say, directly with the guard over every connection, or through the
// settings' proxy with the guard over the host that the proxy is asked for.
func (g Guard) Transport(settings *http.Transport, dialTimeout time.Duration) *Transport {
	direct, proxied := settings.Clone(), settings.Clone()
	direct.Proxy, direct.DialContext = nil, g.Dialer(dialTimeout).DialContext
	proxied.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	return &Transport{guard: g, direct: direct, proxied: proxied}
}

// Transport is an http.RoundTripper within a Guard.
type Transport struct {
	guard           Guard
	direct, proxied *http.Transport
}

// RoundTrip implements http.RoundTripper. It is asked again for each redirect.
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

// CloseIdleConnections ends the connections that are not in use.
func (t *Transport) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}
