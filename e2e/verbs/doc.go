// Package verbs runs the command rouse as its users do, for tests and benchmarks that use a running Rouse only through
// it.
package verbs
