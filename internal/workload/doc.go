// Package workload says how a Function is run, by a Deployment or as a process: its environment,
// the form in which its source travels, its bounds of replicas and its tuning.
//
// It owns these rules, so that the cluster and local mode cannot differ in them, and guarantees to be pure.
package workload
