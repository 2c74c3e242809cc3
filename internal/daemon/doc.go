// Package daemon is the shared runtime of every Rouse process: the log, the signal context, HTTP servers with graceful shutdown, Go's profiles,
// and the version.
//
// It guarantees that every process ends in the same way: the first SIGTERM cancels the context that the work runs under, the work
// drains, and the exit code reports whether it ended well. The public CA roots are compiled in, because the image has no file system
// with CA certificates. A process that is configured for a FIPS 140-3 mode but does not run in it does not start.
//
// # Servers
//
// A [Server] bounds what a client may hold: the lines and bytes of a request's header, the time in which requests arrive and
// responses are read, and the number of connections; for a further connection the slowest is closed. A connection takes at most
// 54 KiB of memory, without what handlers read. The same bounds hold inside TLS. A client of HTTP/2 has 100 requests at a time, and
// 64 KiB of their bodies are received before handlers read them.
//
// # Profiles
//
// Profiles are off until a flag sets an address, which has to be a loopback address. A profile takes at most a minute, and does not
// delay the end of the process.
//
// # Garbage
//
// A process of the data plane with a memory limit (GOMEMLIMIT) has garbage collected less often while it uses little of it
// ([PaceCollector]): the heap grows to five times what is live, or to half of the limit. GOGC turns that off.
//
// # Log
//
// The level and the format of a [Log] can be changed while the process runs, and so can the levels of its components. A component is
// named by the process and the names of its logger, as in eventbridge/delivery; the longest name with a level applies. The lines about
// one Function or Subscription can be shown at the level debug for a while. It guarantees:
//   - The rate of such lines is limited, for each namespace and in total. Further lines are counted and dropped, so that
//     debugging one tenant's objects does not flood the log, and no tenant uses up the lines of another.
//   - They end automatically, at most one hour after the request.
//   - A line that is not written costs two comparisons.
package daemon
