// Package sources runs a server of sources inside the cluster under test: Git repositories over HTTP, HTTPS and SSH,
// and private npm and Python packages, which require a password.
//
// It guarantees that only the test controls their content and the commits of branches.
package sources
