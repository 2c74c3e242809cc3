// Package host checks the machine: whether a cluster can run on it and what is missing, and installs the Debian
// packages that the cluster takes from there. It leaves no service of those packages running.
package host
