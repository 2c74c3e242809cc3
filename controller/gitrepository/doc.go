// Package gitrepository writes the repositories that Functions of v1alpha1 name into these Functions, where v1alpha1 is served: the
// conversion webhook does not know them.
//
// It guarantees that a Function has what its GitRepository says within moments of either being written, in whatever order, and keeps
// it when the GitRepository goes.
package gitrepository
