// Package network joins the cluster's network namespace to the host: one veth pair, routes to the pods and Services,
// and masquerading for their way out. On the host that is one device, one nftables table and one sysctl. Further nodes have
// namespaces of their own, each with a veth pair to the first, which routes between all.
package network
