// Package process runs programs in process groups of their own, like the part of a kubelet that starts and
// ends containers.
//
// It owns the processes that it started and all their children, and guarantees that
//   - a program is ready when it has sent its port through the descriptor of FUNC_READY_FD, and not before;
//   - when a program ends in any way, the rest of its group is killed;
//   - all of it dies with this process, also when this process is killed hard: on Linux the kernel kills the
//     programs, and everywhere a keeper, a second process of the own binary, kills their groups;
//   - lines are passed on whole, except very long ones, and a program never blocks because its lines are not read.
//
// Main has to call Keep before anything else in a binary that uses it.
//
// A Feed holds the last lines of every Function in bounded memory, as container logs do for kubectl logs. It guarantees that
//   - a Function never displaces the lines of another, and never waits for a follower;
//   - a follower gets lines in order, each at most once, and a notice in place of lines that were dropped.
package process
