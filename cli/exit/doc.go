// Package exit defines the exit codes of rouse, and maps errors to them.
//
// It guarantees that an error without a code means Failed, and that a code survives wrapping.
package exit
