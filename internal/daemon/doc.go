// Package daemon is what every Rouse process shares around its work: the log, the signal context, HTTP
// servers that drain, Go's profiles, and the version.
//
// It guarantees that a process ends the same way everywhere: the first SIGTERM cancels the context that
// the work runs under, the work drains, and the exit code says whether it ended well. The public CA roots
// are compiled in, because the image has no file system to find them on.
//
// Servers bound what clients hold: the header of a request in lines and bytes, the time that requests take to arrive and answers
// to be read, and the number of connections, of which the slowest are closed for further ones. So much
// takes at most 54 KiB of memory for each connection, without what handlers read. The same bounds hold inside TLS; a client of
// HTTP/2 has 100 requests at a time, of whose bodies 64 KiB are received before handlers read them.
//
// A process that is asked for a FIPS 140-3 mode and is not in it does not start.
//
// Profiles are off until a flag names an address, which has to be one of the loopback interface. None is taken for longer than
// a minute, and none holds up the end of the process.
//
// Package logging is the log of a process: its level, its format, and the levels of its parts can be changed while it runs.
//
// A part is named by the process and the names of its logger, as in eventbridge/delivery; the longest name that has a level counts.
// The lines about one Function or Subscription can be shown from debug upwards for a while. It guarantees:
//   - Such lines are bounded, for each namespace and for all together. What goes over it is counted and left out, so that
//     who debugs one tenant's objects floods no log, and no tenant takes the lines of another.
//   - They end by themselves, at most one hour after they were asked for.
//   - A line that is not written costs two comparisons.
package daemon
