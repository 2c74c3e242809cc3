// Package language says what a language of Functions is: all that differs between Node.js, Python and any other, as
// data and pure functions. Each folder below runtimes/ describes one; package languages lists them.
//
// It guarantees that nothing in it starts a process or reads a file: package dependencies, the builder, the controller
// and local mode do that, and ask it what to do. What a language does not have is nil or empty: one that is compiled
// has no bytecode, and no debugger is no failure.
package language
