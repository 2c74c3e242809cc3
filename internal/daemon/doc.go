// Package daemon is what every Rouse process shares around its work: the log, the signal context, HTTP
// servers that drain, and the version.
//
// It guarantees that a process ends the same way everywhere: the first SIGTERM cancels the context that
// the work runs under, the work drains, and the exit code says whether it ended well. The public CA roots
// are compiled in, because the image has no file system to find them on.
package daemon
