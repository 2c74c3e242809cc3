// Package rig runs a small Rouse as processes on loopback, without Kubernetes: nats-servers, bridges with fixed routes,
// and the processes of a tool. Benchmarks and the chaos test use it.
//
// A tool runs its processes as roles of its own binary: Main starts the role that the first argument names, or the tool
// itself. It guarantees that every process ends with the tool in any case, and that Close removes their files.
package rig
