// Package conditions provides the activator with the state of Functions that cannot or did not yet start, as their status
// reports it, and with what the Services of other workloads set. It reads both from the cluster's cache, and reduces Functions there
// to what it needs.
package conditions
