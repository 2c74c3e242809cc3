// Package python describes Python as a language of Functions: its runtimes, pip and why that fails, how a handler is
// checked and compiled, and how it runs on a developer's machine. The folder has the runtime's server beside it.
//
// It guarantees to be pure.
package python
