// Package toolchain stands in local mode for the runtimes' images and for the build of a Function: it finds the
// languages' interpreters on this machine, prepares the runtimes' servers, source and dependencies, and returns how a Function is
// started as a process.
//
// It owns the cache folder and, below a Function's state folder, the files that the Function reads. It guarantees that
//   - cache entries are complete: each is made next to its path and moved there, by one process at a time, and made
//     again when its files are missing;
//   - each entry is made once per set of inputs, and shared by all Functions;
//   - every failure is a *Failure, whose message contains the remedy;
//   - no credentials reach an argument, a log or a message.
package toolchain
