// Package fips parses and checks the FIPS 140-3 mode of a process, and configures the mode of other processes.
//
// It guarantees that a requested mode that is not in force is an error with a remedy: every process checks it before
// its work begins. Binaries are built with a frozen version of Go's module, so the mode is chosen at runtime.
package fips
