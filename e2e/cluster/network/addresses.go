package network

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// Addresses of the cluster. All are private; pods and Services are reached from this host only.
const (
	Host     = "10.200.255.1"    // the host's end of the veth pair
	Node     = "10.200.255.2"    // the node's end, where the API server listens
	Links    = "10.200.255.0/24" // that pair's, and those from the first node to further ones
	Pods     = "10.201.0.0/16"
	Services = "10.202.0.0/16"

	APIService = "10.202.0.1"  // the Service "kubernetes"
	DNS        = "10.202.0.10" // the Service "kube-dns"
	Registry   = "10.202.0.50" // the Service "registry"
	Builds     = "10.202.0.51" // the Service of the chart's registry

	// Device is the host's end of the veth pair.
	Device = "rouse0"
	// Table is the host's nftables table.
	Table = "rouse_cluster"

	peer = "rouse1"

	// NodeName is the name of the first node, which may be the only one.
	NodeName = "rouse"
)

// APIServer is the URL of the API server, from the host and from the node.
const APIServer = "https://" + Node + ":6443"

// Collisions lists the routes of the host (as `ip route` prints them) that the cluster's addresses would hide.
func Collisions(routes string) []string {
	ours := []netip.Prefix{netip.MustParsePrefix(Links), netip.MustParsePrefix(Pods), netip.MustParsePrefix(Services)}
	var found []string
	for line := range strings.Lines(routes) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.Contains(line, "dev "+Device) {
			continue
		}
		other, err := parseDestination(fields[0])
		if err != nil || other.Bits() == 0 {
			continue
		}
		for _, prefix := range ours {
			if prefix.Overlaps(other) {
				found = append(found, fmt.Sprintf("%s (the host's route: %s)", prefix, strings.TrimSpace(line)))
			}
		}
	}
	return found
}

func parseDestination(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return address.Prefix(address.BitLen())
}

// Nameservers are the host's, without those on loopback, which pods cannot reach.
func Nameservers() []string {
	for _, path := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if servers := parseNameservers(string(content)); len(servers) > 0 {
			return servers
		}
	}
	return nil
}

func parseNameservers(resolvConf string) []string {
	var servers []string
	for line := range strings.Lines(resolvConf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if address, err := netip.ParseAddr(fields[1]); err == nil && !address.IsLoopback() {
			servers = append(servers, fields[1])
		}
	}
	return servers
}
