// Package dependencies installs what a Function's manifest names with the package manager of its language, or compiles the
// source with its compiler, and finds out why that failed.
//
// The command lines of both and the meaning of what they print are their languages'. It guarantees that
//   - every failure of theirs is a *Failure with a Reason, the cause and the remedy;
//   - what it starts ends with it;
//   - the credentials of private packages stay in the file that has them.
package dependencies
