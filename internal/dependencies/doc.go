// Package dependencies installs a Function's dependencies with the package manager of its language, or compiles the
// source with its compiler, and classifies their failures.
//
// The packages of the languages define the command lines and interpret the output. It guarantees that
//   - every failure is a *Failure with a Reason, the cause and the remedy;
//   - child processes end with it;
//   - the credentials of private packages stay in their file.
package dependencies
