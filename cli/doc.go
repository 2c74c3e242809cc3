// Package cli is the command line: the commands of rouse, their flags, and what they print.
//
// It owns what is printed for people and programs. It guarantees:
//
//   - Commands act on the local mode unless a flag names a cluster.
//   - The output holds what was asked for and nothing else; notes and progress go to standard error.
//   - Every end has its exit code (package exit), and every error has the advice that is known.
package cli
