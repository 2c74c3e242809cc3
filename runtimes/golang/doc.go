// Package golang describes Go as a language of Functions: its runtimes, the project that is made of a source, how that is
// compiled and why it does not compile. The folder function has the runtime's server, which handlers import as well.
//
// It guarantees to be pure, and that what it has compiled runs no code of a source or a module while it is compiled, asks no
// host but the module proxy, and reads no file outside of the source.
package golang
