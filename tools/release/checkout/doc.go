// Package checkout is the Git repository that a release is made from: one commit of it, and nothing that is not in that commit.
package checkout
