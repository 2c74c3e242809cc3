// Package exit has how a command of rouse ended: which exit codes there are, and which of them an error means.
//
// It guarantees that an error without a code means Failed, and that a code survives wrapping.
package exit
