// Package language describes a language of Functions: all differences between Node.js, Python and any other language,
// as data and pure functions. Each folder below runtimes/ describes one; package languages lists them.
//
// It guarantees that it starts no process and reads no file: package dependencies, the builder, the controller and
// local mode do so, using its descriptions. A feature that a language lacks is nil or empty: a compiled language has no
// bytecode, and a missing debugger is not an error.
package language
