// Package buildqueue decides which Functions may build now.
//
// Guarantees:
//   - No more builds are begun than the limit allows, also right after a start and while the cache lags behind.
//   - Namespaces take turns however many Functions of one of them wait, and within a namespace the first to come is the
//     first to build. A namespace never holds more than its share of the slots.
//   - A slot is held by a Function that was granted it, for as long as its Job runs, and never for longer than a build
//     may take. Jobs that users have made, whatever their labels and owners, hold none.
//   - Between, by which the collector of images has a Function for itself, waits for no build, and delays none of another Function.
//   - Memory is bounded by the Functions that there are: who leaves, or does not ask again in time, is forgotten.
//
// What runs at a start is read from Jobs, within the same shares, so nothing is lost with the process.
package buildqueue
