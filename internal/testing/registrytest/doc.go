// Package registrytest runs the CNCF distribution registry, the program that the chart installs, inside a test.
//
// It guarantees that the registry is a separate process with its store in the test's temporary directory, that every
// request is recorded before its response arrives, and that the registry is stopped when the test ends.
package registrytest
