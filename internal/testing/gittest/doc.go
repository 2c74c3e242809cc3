// Package gittest serves real Git repositories to tests on loopback: git's own http-backend behind HTTP and HTTPS, with
// and without a password, and OpenSSH's sshd.
//
// It guarantees that a test fails with a reference to "make packages" where one of these programs is missing, and that
// the servers are stopped when the test ends.
package gittest
