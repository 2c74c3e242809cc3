// Package registrytest runs the CNCF distribution registry, the program that the chart installs, inside a
// test.
//
// It guarantees that the registry is a process of its own with its store in the test's temporary directory,
// that every request to it is on record when its answer arrives, and that it is gone when the test ends.
package registrytest
