// Package load is the publisher of the benchmarks: a role of a rig, in a process of its own, so that its cost is not
// charged to the process that it measures. It speaks HTTP itself on connections that stay, which takes little of a small machine.
//
// Closed, each connection publishes as soon as its last event was answered. Open, events are published at a rate whatever
// becomes of them, and each one says in its data when it should have been sent.
package load
