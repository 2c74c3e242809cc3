// Package golang describes Go as a language of Functions: its runtimes, the project generated for a source, its
// compilation, and the classification of compilation failures. The folder function contains the runtime's server, which
// handlers import as well.
//
// It guarantees to be pure, and that the compilation runs no code of the source or of a module, connects only to the
// module proxy, and reads no file outside of the source.
package golang
