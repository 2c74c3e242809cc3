// Package sources runs a server of sources inside the cluster under test: Git repositories over HTTP, HTTPS and SSH, and
// private npm and Python packages, which ask for a password.
//
// It guarantees that a test alone decides about their content and when a branch moves.
package sources
