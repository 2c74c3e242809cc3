package network

import "fmt"

// MaxMembers is how many nodes a cluster may have.
const MaxMembers = 9

// Member is a node as the network sees it.
type Member struct {
	Name    string
	Address string // the node's own
	Gateway string // the other end of its link
	Pods    string // the addresses of its pods
}

// Members are the nodes of a cluster of that many. One alone has all addresses of pods; of several each has a part.
func Members(count int) []Member {
	first := Member{Name: NodeName, Address: Node, Gateway: Host, Pods: Pods}
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
