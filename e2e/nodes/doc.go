// Package nodes shows on a cluster of several nodes that its network enforces the NetworkPolicies of the chart and of Functions, and
// what becomes of events and of requests when a node is cut off, and when one is drained. Build tag e2e; the local cluster only. Run it
// with "make e2e-nodes".
package nodes
