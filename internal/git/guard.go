package git

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

const dialTimeout = 10 * time.Second

// metadata are addresses where clouds hand out credentials of their machines, beside 169.254.169.254 and its kin,
// which are link-local.
func metadata() []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{100, 100, 100, 200}), // Alibaba Cloud
		netip.MustParseAddr("fd00:ec2::254"),         // AWS
		netip.MustParseAddr("fd20:ce::254"),          // Google Cloud
	}
}

// allowed tells whether a tenant may make us connect to an address.
func allowed(address netip.Addr) bool {
	address = embedded(address.WithZone("").Unmap())
	return address.IsValid() && !address.IsLoopback() && !address.IsLinkLocalUnicast() && !address.IsLinkLocalMulticast() &&
		!address.IsInterfaceLocalMulticast() && !address.IsMulticast() && !address.IsUnspecified() && !slices.Contains(metadata(), address)
}

// embedded is the IPv4 address to which a gateway from IPv6 passes a connection on (RFC 6052).
func embedded(address netip.Addr) netip.Addr {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(address) {
		return address
	}
	bytes := address.As16()
	return netip.AddrFrom4([4]byte(bytes[12:]))
}

func forbidden(host string) error {
	return &Error{Kind: Forbidden, Message: "the host " + host + " has a loopback, link-local, multicast or metadata address, to which no " +
		"connection is made. Correct spec.source.gitRepository.url"}
}

// dialer refuses after names are resolved, so that no name and no redirect leads around it.
func (c *Client) dialer() *net.Dialer {
	dialer := &net.Dialer{Timeout: dialTimeout}
	if c.options.AllowLoopback {
		return dialer
	}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(resolved.Addr()) {
			return forbidden(address)
		}
		return nil
	}
	return dialer
}

// checkHost refuses a host to which a proxy is to connect. A name that only the proxy can resolve passes.
func (c *Client) checkHost(ctx context.Context, host string) error {
	if c.options.AllowLoopback {
		return nil
	}
	if address, err := netip.ParseAddr(host); err == nil {
		if !allowed(address) {
			return forbidden(host)
		}
		return nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && slices.ContainsFunc(addresses, func(address netip.Addr) bool { return !allowed(address) }) {
		return forbidden(host)
	}
	return nil
}
