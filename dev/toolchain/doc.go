// Package toolchain stands in local mode for the runtimes' images and for the build of a Function: it finds the
// languages' interpreters on this machine, prepares the runtimes' servers, source and dependencies, and returns how a Function is
// started as a process.
//
// It owns the cache folder and, below a Function's state folder, the files that the Function reads. It guarantees that
//   - what is in the cache is whole: it is made beside its path and moved there, by one process at a time, and made
//     again when files of it are gone;
//   - everything is made once for what it is made of, and shared by all Functions;
//   - every failure is a *Failure, whose message has the advice;
//   - no credentials reach an argument, a log or a message.
package toolchain
