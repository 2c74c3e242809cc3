package node

import (
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/process"
)

// Proxy says how to start kube-proxy. It leaves the limits of connection tracking alone, which are the host's.
func Proxy(n Node, binary string) process.Program {
	return process.Program{
		Name: "kube-proxy", Path: binary, Log: n.Dir.Log("kube-proxy"),
		Args: []string{
			"--kubeconfig=" + n.Cluster.KubeconfigOf("proxy"), "--hostname-override=" + n.Name,
			"--proxy-mode=nftables", "--cluster-cidr=" + network.Pods,
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
			"--oom-score-adj=0", "--nodeport-addresses=primary",
		},
	}
}
