package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

// Addresses of the cluster. All are private; pods and Services are reachable only from this host.
const (
	HostAddress  = "10.200.255.1"    // the host's end of the veth pair
	NodeAddress  = "10.200.255.2"    // the node's end, where the API server listens
	LinkRange    = "10.200.255.0/24" // of that pair, and of those from the first node to further ones
	PodRange     = "10.201.0.0/16"
	ServiceRange = "10.202.0.0/16"

	APIService      = "10.202.0.1"  // the Service "kubernetes"
	DNSAddress      = "10.202.0.10" // the Service "kube-dns"
	RegistryAddress = "10.202.0.50" // the Service "registry"

	// Device is the host's end of the veth pair.
	Device = "rouse0"
	// Table is the host's nftables table.
	Table = "rouse_cluster"

	peer = "rouse1"

	// NodeName is the name of the first node, which may be the only one.
	NodeName = "rouse"
)

// APIServer is the URL of the API server, from the host and from the node.
const APIServer = "https://" + NodeAddress + ":6443"

// Collisions lists the routes of the host (as `ip route` prints them) that the cluster's addresses would hide.
func Collisions(routes string) []string {
	ours := []netip.Prefix{netip.MustParsePrefix(LinkRange), netip.MustParsePrefix(PodRange), netip.MustParsePrefix(ServiceRange)}
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

// Nameservers returns the host's nameservers, without those on loopback, which pods cannot reach.
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

// MaxMembers is the maximum number of nodes of a cluster.
const MaxMembers = 9

// Member is the network configuration of a node.
type Member struct {
	Name    string
	Address string // the node's own
	Gateway string // the other end of its link
	Pods    string // the addresses of its pods
}

// Members returns the nodes of a cluster of the given size. A single node has all addresses of pods; several nodes
// divide them.
func Members(count int) []Member {
	first := Member{Name: NodeName, Address: NodeAddress, Gateway: HostAddress, Pods: PodRange}
	if count <= 1 {
		return []Member{first}
	}
	first.Pods = podsOf(1)
	members := []Member{first}
	for n := 2; n <= count; n++ {
		members = append(members, Member{
			Name: fmt.Sprintf("%s-%d", NodeName, n), Pods: podsOf(n),
			Gateway: fmt.Sprintf("10.200.255.%d", 4*(n-1)+1), Address: fmt.Sprintf("10.200.255.%d", 4*(n-1)+2),
		})
	}
	return members
}

func podsOf(n int) string { return fmt.Sprintf("10.201.%d.0/24", n) }

// ErrCollision means that the host already uses the cluster's addresses.
var ErrCollision = errors.New("the cluster's addresses are in use on this host")

const forwardSetting = "/proc/sys/net/ipv4/ip_forward"

// JoinNetwork connects the network namespace of the process pid with the host.
func JoinNetwork(ctx context.Context, pid int, log string) error {
	routes, err := command.Command{Name: "ip", Args: []string{"-4", "route"}}.Run(ctx)
	if err != nil {
		return err
	}
	if found := Collisions(routes); len(found) > 0 {
		return fmt.Errorf("%w: %s", ErrCollision, strings.Join(found, ", "))
	}
	if err := letHostForward(); err != nil {
		return err
	}
	namespace := strconv.Itoa(pid)
	for _, line := range joinCommands(namespace, mtu()) {
		if _, err := shell(line, log, "").Run(ctx); err != nil {
			return err
		}
	}
	_, err = shell("nft -f -", log, ruleset()).Run(ctx)
	return err
}

func joinCommands(pid, mtu string) []string {
	inside := "nsenter -n -t " + pid + " ip "
	return []string{
		"ip link add " + Device + " mtu " + mtu + " type veth peer name " + peer + " mtu " + mtu + " netns " + pid,
		"ip address add " + HostAddress + "/30 dev " + Device,
		"ip link set " + Device + " up",
		"ip route add " + PodRange + " via " + NodeAddress + " dev " + Device,
		"ip route add " + ServiceRange + " via " + NodeAddress + " dev " + Device,
		inside + "link set lo up",
		inside + "link set " + peer + " name eth0",
		inside + "address add " + NodeAddress + "/30 dev eth0",
		inside + "link set eth0 up",
		inside + "route add default via " + HostAddress,
	}
}

// ruleset gives pods access to the host's networks. Packets between the host and the cluster keep their addresses.
func ruleset() string {
	return `table ip ` + Table + ` {
	chain postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		iifname "` + Device + `" oifname != "` + Device + `" masquerade
	}
}
`
}

// mtu returns the smallest MTU of the host's devices with a default route.
func mtu() string {
	const standard = "1500"
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return standard
	}
	for line := range strings.Lines(string(routes)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "00000000" {
			continue
		}
		if size, err := os.ReadFile("/sys/class/net/" + fields[0] + "/mtu"); err == nil {
			return strings.TrimSpace(string(size))
		}
	}
	return standard
}

// LeaveNetwork removes the host's part of the network. The device disappears with the namespace; it is removed here in
// case the namespace was never created.
func LeaveNetwork(ctx context.Context, log string) error {
	var problems []error
	if hasTable(ctx) {
		_, err := shell("nft delete table ip "+Table, log, "").Run(ctx)
		problems = append(problems, err)
	}
	problems = append(problems, command.Await(ctx, time.Minute, 50*time.Millisecond, "the device "+Device+" is gone",
		func(ctx context.Context) error {
			if !HasDevice() {
				return nil
			}
			_, _ = shell("ip link delete "+Device, log, "").Run(ctx)
			if HasDevice() {
				return fmt.Errorf("%s is still there", Device)
			}
			return nil
		}))
	return errors.Join(problems...)
}

// HasDevice reports whether the host's end of the veth pair exists.
func HasDevice() bool {
	_, err := os.Stat("/sys/class/net/" + Device)
	return err == nil
}

func hasTable(ctx context.Context) bool {
	tables, err := shell("nft list tables", "", "").Run(ctx)
	return err == nil && strings.Contains(tables, Table)
}

// NetworkLeftovers lists the remains of this package on the host.
func NetworkLeftovers(ctx context.Context) []string {
	var found []string
	if HasDevice() {
		found = append(found, "network device "+Device)
	}
	if hasTable(ctx) {
		found = append(found, "nftables table "+Table)
	}
	return found
}

func shell(line, log, input string) command.Command {
	words := strings.Fields(line)
	return command.Command{Name: words[0], Args: words[1:], Log: log, Stdin: strings.NewReader(input)}
}

// LinkMember connects the network namespace of the process pid, a further node, with the first node's.
func LinkMember(ctx context.Context, member Member, first, pid int, log string) error {
	for _, line := range linkCommands(member, strconv.Itoa(first), strconv.Itoa(pid), mtu()) {
		if _, err := shell(line, log, "").Run(ctx); err != nil {
			return err
		}
	}
	return errors.Join(forward(ctx, first, log), forward(ctx, pid, log))
}

// linkCommands connects the first node with each further node by a cable. There is no bridge, whose packets would pass
// the packet filters of the first node twice.
func linkCommands(member Member, first, pid, mtu string) []string {
	at, there := "nsenter -n -t "+first+" ip ", "nsenter -n -t "+pid+" ip "
	return []string{
		at + "link add " + member.Name + " mtu " + mtu + " type veth peer name eth0 mtu " + mtu + " netns " + pid,
		at + "address add " + member.Gateway + "/30 dev " + member.Name,
		at + "link set " + member.Name + " up",
		at + "route add " + member.Pods + " via " + member.Address + " dev " + member.Name,
		there + "link set lo up",
		there + "address add " + member.Address + "/30 dev eth0",
		there + "link set eth0 up",
		there + "route add default via " + member.Gateway,
	}
}

// JoinLinks adds routes from the host to the further nodes, through the first.
func JoinLinks(ctx context.Context, log string) error {
	_, err := shell("ip route add "+LinkRange+" via "+NodeAddress+" dev "+Device, log, "").Run(ctx)
	return err
}

// forward enables IP forwarding in a network namespace.
func forward(ctx context.Context, pid int, log string) error {
	allow := command.Command{Name: "nsenter", Log: log, Args: []string{"-n", "-t", strconv.Itoa(pid), "sh", "-c", "echo 1 >" + forwardSetting}}
	_, err := allow.Run(ctx)
	return err
}

// CutCable takes down the link of a further node at its end: the node has no network, and packets to it are lost.
func CutCable(ctx context.Context, pid int) error {
	_, err := shell(fmt.Sprintf("nsenter -n -t %d ip link set eth0 down", pid), "", "").Run(ctx)
	return err
}

// MendCable brings the link up again.
func MendCable(ctx context.Context, member Member, pid int) error {
	for _, line := range []string{
		fmt.Sprintf("nsenter -n -t %d ip link set eth0 up", pid),
		fmt.Sprintf("nsenter -n -t %d ip route replace default via %s", pid, member.Gateway),
	} {
		if _, err := shell(line, "", "").Run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// letHostForward enables forwarding between pods and other networks on the host.
func letHostForward() error {
	if err := os.WriteFile(forwardSetting, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let the host forward packets: %w", err)
	}
	return nil
}
