// Package nodes tests on a cluster of several nodes that its network enforces the NetworkPolicies of the chart and of
// Functions, and that events and requests survive the failure and the drain of a node. Build tag e2e; the local cluster
// only. Run it with "make e2e-nodes".
package nodes
