// Package process runs programs in process groups of their own: of what a kubelet does, the part that starts and
// ends containers.
//
// It owns the processes that it started and all their children, and guarantees that
//   - a program is ready when it has sent its port through the descriptor of FUNC_READY_FD, and not before;
//   - when a program ends, however it ends, what is left of its group is killed;
//   - all of it dies with this process, also when this process is killed hard: on Linux the kernel kills the
//     programs, and everywhere a keeper, a second process of the own binary, kills their groups;
//   - lines are handed on whole, but for very long ones, and a program never blocks because they are not read.
//
// A binary that uses it calls Keep first thing in main.
//
// Package feed keeps what Functions print: what a cluster's container logs are to kubectl logs.
//
// It owns the lines of every Function, in bounded memory, and guarantees that
//   - a Function that prints much drives out none of another's lines;
//   - a Function that prints never waits for a follower;
//   - a follower sees lines in the order in which they were added, each at most once, and gets a notice where lines were
//     driven out before it came to them.
package process
