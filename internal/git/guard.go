package git

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

const dialTimeout = 10 * time.Second

// allowed tells whether a tenant may make us connect to an address.
func allowed(address netip.Addr) bool {
	address = address.Unmap()
	return address.IsValid() && !address.IsLoopback() && !address.IsLinkLocalUnicast() && !address.IsLinkLocalMulticast() &&
		!address.IsInterfaceLocalMulticast() && !address.IsMulticast() && !address.IsUnspecified()
}

func forbidden(host string) error {
	return &Error{Kind: Forbidden, Message: "the host " + host + " has a loopback, link-local or multicast address, to which no connection " +
		"is made. Correct spec.source.gitRepository.url"}
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

// resolve picks an address of the host for connections that cannot be given a dialer.
func (c *Client) resolve(ctx context.Context, host string) (string, error) {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", err
	}
	for _, address := range addresses {
		if c.options.AllowLoopback || allowed(address) {
			return address.Unmap().String(), nil
		}
	}
	return "", forbidden(host)
}
