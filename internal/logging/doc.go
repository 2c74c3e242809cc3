// Package logging is the log of a process: its level, its format, and the levels of its parts can be changed while it runs.
//
// A part is named by the process and the names of its logger, as in eventbridge/delivery; the longest name that has a level counts.
// The lines about one Function or Subscription can be shown from debug upwards for a while. It guarantees:
//   - Such lines are bounded, for each namespace and for all together. What goes over it is counted and left out, so that
//     who debugs one tenant's objects floods no log, and no tenant takes the lines of another.
//   - They end by themselves, at most one hour after they were asked for.
//   - A line that is not written costs two comparisons.
package logging
