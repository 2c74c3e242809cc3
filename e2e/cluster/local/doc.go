// Package local brings the local cluster up and takes it down: the order of the steps, which of them run at the same
// time, and what happens when one fails.
package local
