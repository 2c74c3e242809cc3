// Package state defines the locations of the cluster's files: the state directory (one running cluster, removed by
// down) and the cache (build results, kept). All paths that other packages use are defined here.
package state
