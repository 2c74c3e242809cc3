// Package conditions provides the activator with the state of Functions that cannot or did not yet start, as their status
// reports it, and with the wait that the Services of other workloads set. It reads Functions from the cluster's cache, which it reduces to what it needs.
package conditions
