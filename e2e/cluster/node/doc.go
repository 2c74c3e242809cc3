// Package node says how the one node works: containerd, the CNI plugins, the kubelet and kube-proxy.
package node
