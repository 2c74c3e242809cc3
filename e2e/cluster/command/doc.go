// Package command runs programs of the host and reports their progress: bounded by a context, with their output in a
// log file, and with an error that names the failed program and contains the end of its output. Progress prints the
// steps of a start, and Kubectl runs kubectl for one kubeconfig.
package command
