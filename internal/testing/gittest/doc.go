// Package gittest serves real Git repositories to tests on loopback: git's own http-backend behind HTTP and
// HTTPS, with and without a password, and git's own upload-pack behind SSH.
package gittest
