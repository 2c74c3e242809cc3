package host

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCollisions(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		routes string
		want   int
	}{
		"a plain machine": {routes: "default via 192.0.2.1 dev eth0 \n192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2 \n"},
		"our own routes":  {routes: "10.201.0.0/16 via 10.200.255.2 dev rouse0 \n"},
		"a network that holds all of ours": {
			routes: "10.0.0.0/8 via 192.0.2.1 dev eth0 \n", want: 3,
		},
		"one address inside the pods' range": {routes: "10.201.3.4 dev tun0 scope link \n", want: 1},
		"malformed routes are skipped":       {routes: "blackhole\nunreachable 10.1.0.0/16\n\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, Collisions(tc.routes), tc.want)
		})
	}
}

func TestNameserversOnLoopbackAreNotForPods(t *testing.T) {
	t.Parallel()
	const text = "# comment\nnameserver 127.0.0.53\nnameserver ::1\nnameserver 192.0.2.53\nsearch example.com\noptions edns0\n"
	require.Equal(t, []string{"192.0.2.53"}, parseNameservers(text))
	require.Empty(t, parseNameservers("nameserver 127.0.0.53\n"))
}

func TestJoinCommandsChangeOnlyTheNamespace(t *testing.T) {
	t.Parallel()
	commands := joinCommands("4711", "1400")
	require.Contains(t, commands, "ip link add rouse0 mtu 1400 type veth peer name rouse1 mtu 1400 netns 4711")
	require.Contains(t, commands, "nsenter -n -t 4711 ip route add default via 10.200.255.1")
}

func TestSingleNodeHasAllAddressesOfPods(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Member{{Name: "rouse", Address: NodeAddress, Gateway: HostAddress, Pods: PodRange}}, Members(1))
}

func TestSeveralNodesShareNoAddress(t *testing.T) {
	t.Parallel()
	members := Members(MaxMembers)
	require.Len(t, members, MaxMembers)
	all, links := netip.MustParsePrefix(PodRange), netip.MustParsePrefix(LinkRange)
	for i, one := range members {
		pods := netip.MustParsePrefix(one.Pods)
		require.True(t, all.Overlaps(pods) && pods.Bits() > all.Bits(), one.Pods)
		address, gateway := netip.MustParseAddr(one.Address), netip.MustParseAddr(one.Gateway)
		require.True(t, links.Contains(address) && links.Contains(gateway))
		link, err := address.Prefix(30)
		require.NoError(t, err)
		require.True(t, link.Contains(gateway), "the ends of a link are neighbours")
		for _, other := range members[:i] {
			require.False(t, pods.Overlaps(netip.MustParsePrefix(other.Pods)))
			require.False(t, link.Contains(netip.MustParseAddr(other.Address)))
			require.NotEqual(t, one.Name, other.Name)
		}
	}
}

func TestTheFirstNodeRoutesToTheOthers(t *testing.T) {
	t.Parallel()
	second := Members(3)[1]
	commands := linkCommands(second, "11", "22", "1400")
	require.Contains(t, commands, "nsenter -n -t 11 ip link add rouse-2 mtu 1400 type veth peer name eth0 mtu 1400 netns 22")
	require.Contains(t, commands, "nsenter -n -t 11 ip route add 10.201.2.0/24 via 10.200.255.6 dev rouse-2")
	require.Contains(t, commands, "nsenter -n -t 22 ip route add default via 10.200.255.5")
}
