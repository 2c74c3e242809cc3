// Package loopback gives tests a port that is theirs for the whole test, also while nothing listens on it.
//
// A port that was found by listening and closing belongs to nobody: the next socket of any test that asks
// the kernel for one may get it, and "connection refused" becomes somebody else's answer.
package loopback
