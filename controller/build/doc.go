// Package build decides which Functions may build now.
//
// It guarantees that no more builds are begun than the limit allows, also right after a start and while the
// cache lags behind, that namespaces take turns however many Functions of one of them wait, and that within a
// namespace the first to come is the first to build. What runs is counted from Jobs, so nothing is lost with the
// process.
package build
