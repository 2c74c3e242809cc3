// Package feed keeps what Functions print: what a cluster's container logs are to kubectl logs.
//
// It owns the lines of every Function, in bounded memory, and guarantees that
//   - a Function that prints much drives out none of another's lines;
//   - a Function that prints never waits for a follower;
//   - a follower sees lines in the order in which they were added, each at most once, and gets a notice where lines were
//     driven out before it came to them.
package feed
