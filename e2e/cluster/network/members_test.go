package network

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneNodeHasAllAddressesOfPods(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Member{{Name: "rouse", Address: Node, Gateway: Host, Pods: Pods}}, Members(1))
}

func TestSeveralNodesShareNoAddress(t *testing.T) {
	t.Parallel()
	members := Members(MaxMembers)
	require.Len(t, members, MaxMembers)
	all, links := netip.MustParsePrefix(Pods), netip.MustParsePrefix(Links)
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
