// Package bundle compiles a handler that the runtime cannot load as it is written, such as one in TypeScript, to one
// script, by esbuild.
//
// It owns the compiler's options, and guarantees that the script depends on the source alone, not on the machine, that
// nothing of the source is executed, and that no file outside of it gets into the script.
package bundle
