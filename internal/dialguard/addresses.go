package dialguard

import (
	"net/netip"
	"slices"
)

// never are the addresses that no Git server and no registry of a tenant has, besides what net/netip has names for.
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

// carriers are the prefixes whose addresses a gateway passes on to an IPv4 address, and where that begins.
func carriers() map[netip.Prefix]int {
	return map[netip.Prefix]int{
		netip.MustParsePrefix("64:ff9b::/96"):    12, // NAT64 (RFC 6052)
		netip.MustParsePrefix("::ffff:0:0:0/96"): 12, // SIIT (RFC 7915)
		netip.MustParsePrefix("2002::/16"):       2,  // 6to4 (RFC 3056)
	}
}

// Allows reports whether a tenant may make this process connect to an address.
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
