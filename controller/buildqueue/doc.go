// Package buildqueue decides which Functions may build now.
//
// It guarantees:
//   - No more builds start than the limit allows, even right after a start and while the cache lags behind.
//   - Namespaces take turns, however many Functions of one of them wait, and within a namespace builds are first in,
//     first out. A namespace never holds more than its share of the slots.
//   - A slot is held by the Function that it was granted to, as long as its Job runs, even if the Function is deleted,
//     but no longer than a build may take. A Job that a user made holds at most the slot of a Function of its namespace.
//   - Between, by which the image collector excludes a Function's builds, waits for no build, and delays none of another
//     Function.
//   - Memory is bounded by the number of Functions: one that leaves, or does not repeat its request in time, is dropped.
//
// At a start the running builds are read from Jobs, within the same shares, so nothing is lost with the process.
package buildqueue
