package runner

import (
	"net"
	"net/netip"
	"strings"
)

// isLoopback reports whether a Host header names this machine as seen from itself. A page of another site that has its
// name resolve to this machine (DNS rebinding) sends its own.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
