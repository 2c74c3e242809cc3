// Package command runs programs of the host: bounded by a context, output to a log file, and an error that
// says which program failed and carries the end of what it wrote.
package command
