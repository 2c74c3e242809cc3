package routing

import (
	"net/netip"
	"strings"
)

// NeverSink reports whether an address is one that no policy can allow: that of the caller itself, of its link, or
// of the service that gives a machine its credentials. It is also asked of what a sink's name resolves to.
func NeverSink(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return !address.IsValid() || address.IsUnspecified() || address.IsLoopback() || address.IsMulticast() ||
		address.IsLinkLocalUnicast() || address.IsInterfaceLocalMulticast() || isMetadata(address)
}

// isMetadata knows the addresses of cloud metadata that are not link-local.
func isMetadata(address netip.Addr) bool {
	switch address.String() {
	case "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "255.255.255.255":
		return true
	default:
		return address.Is4() && address.As4()[0] == 0 // this network
	}
}

// neverHost reports whether a name is one for such an address.
func neverHost(host string) bool {
	switch host {
	case "localhost", "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal":
		return true
	default:
		return strings.HasSuffix(host, ".localhost")
	}
}
