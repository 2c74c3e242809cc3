// Package fips says in which of FIPS 140-3's modes a process is to run, in which it runs, and how another one is asked for it.
//
// It guarantees that a mode that is asked for and not there is an error that says what to do: every process of ours asks
// before its work begins. Binaries are built with a frozen version of Go's module, so the mode is chosen where they run.
package fips
