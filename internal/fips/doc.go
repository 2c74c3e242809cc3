// Package fips reports in which mode of FIPS 140-3 a process is to run and in which it runs, and configures the mode of other processes.
//
// It guarantees that a requested mode that is not in force is an error with a remedy: every process checks it
// before its work begins. Binaries are built with a frozen version of Go's module, so the mode is chosen where they run.
package fips
