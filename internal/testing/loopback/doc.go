// Package loopback gives tests a port that is theirs for the whole test, also while nothing listens on it.
//
// A port that was found by listening and closing is not reserved: the next socket of any test that asks
// the kernel for one may get it, and "connection refused" becomes the answer of another test's server.
package loopback
