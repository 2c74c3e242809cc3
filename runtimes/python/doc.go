// Package python describes Python as a language of Functions: its runtimes, pip and the classification of its failures,
// how a handler is checked and compiled, and how it runs on a developer's machine. The folder also contains the
// runtime's server.
//
// It guarantees to be pure.
package python
