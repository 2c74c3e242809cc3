// Package node says how a node works: containerd, the CNI plugins, the kubelet, kube-proxy and, where there are
// several nodes, what enforces NetworkPolicies.
package node
