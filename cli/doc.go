// Package cli is the command line: the commands of rouse, their flags and their output.
//
// It owns the output for users and programs. It guarantees:
//
//   - Commands act on the local mode unless a flag names a cluster.
//   - Standard output contains only results; notes and progress go to standard error.
//   - Every failure has an exit code (package exit), and errors contain the remedy where it is known.
package cli
