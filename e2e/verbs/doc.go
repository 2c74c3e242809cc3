// Package verbs runs the command rouse as its users do, for proofs and benchmarks that know a running Rouse only by it.
package verbs
