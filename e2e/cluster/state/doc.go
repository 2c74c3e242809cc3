// Package state knows where the cluster keeps its files: the state directory (one running cluster, removed by
// down) and the cache (what was built, kept). Every path that another package uses comes from here.
package state
