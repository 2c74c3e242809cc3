// Package component builds the programs that the cluster is made of, each from the Go module that holds it, and
// keeps them in the cache under the versions they were built from.
package component
