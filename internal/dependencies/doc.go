// Package dependencies installs what a Function's package.json or requirements.txt names, with npm or pip, and finds
// out why that failed.
//
// It owns the command lines of both package managers and the meaning of what they print. It guarantees that
//   - every failure of theirs is a *Failure with a Reason, the cause and the remedy;
//   - what it starts ends with it;
//   - the credentials of private packages stay in the file that has them.
package dependencies
