// Package workload defines how a Function runs, in a Deployment or as a local process: its environment, the encoding of
// its source, its bounds of replicas and its tuning.
//
// It owns these rules, so that the cluster and local mode cannot differ, and guarantees to be pure.
package workload
