// Package nodejs describes Node.js as a language of Functions: its runtimes, npm and the classification of its
// failures, how a handler is found and checked, and how it runs on a developer's machine. The folder also contains the
// runtime's server.
//
// It guarantees to be pure.
package nodejs
