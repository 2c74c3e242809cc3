package node

import (
	"path"
	"strconv"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Node is one node of the cluster.
type Node struct {
	network.Member

	Alone   bool      // the only node
	Dir     state.Dir // its own files
	Cluster state.Dir // those of the cluster; for the first node the same
	Cgroup  string    // in which its pods are
}

// All are the nodes of a cluster of that many.
func All(cluster state.Dir, count int) []Node {
	var all []Node
	for i, member := range network.Members(count) {
		one := Node{Member: member, Alone: count <= 1, Dir: cluster, Cluster: cluster, Cgroup: host.CgroupRoot}
		if i > 0 {
			one.Dir = state.Dir(cluster.Path("nodes", strconv.Itoa(i+1)))
			one.Cgroup = path.Join(host.CgroupRoot, member.Name)
		}
		all = append(all, one)
	}
	return all
}
