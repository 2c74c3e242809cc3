// Package nodejs describes Node.js as a language of Functions: its runtimes, npm and why that fails, how a handler is
// found and checked, and how it runs on a developer's machine. The folder has the runtime's server beside it.
//
// It guarantees to be pure.
package nodejs
