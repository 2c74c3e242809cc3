// Package rig builds a small Rouse out of processes on loopback, without Kubernetes: nats-servers, bridges with
// fixed routes, and the processes that a tool adds. Benchmarks and the chaos run use it.
//
// A tool runs its processes as roles of its own binary: Main starts the role that the first argument names, or the
// tool itself. It guarantees that every process dies with the tool, however that ends, and that what they wrote is
// removed with Close.
package rig
