// Package schedule decides when the events of Schedules are due, which of those that were missed are published, what the
// events are, and which Schedules of a namespace hold. It uses no clock: callers say what time it is.
//
// It guarantees:
//   - due times depend on the Schedule alone, so that every process computes the same ones, and an event is the same byte
//     for byte whoever publishes it. Its id names the Schedule and the due time: a Schedule publishes no due time twice, also
//     after it was changed;
//   - cron follows the clock on the wall of its time zone. A time that a change of the clock leaves out is due at the
//     change, one that comes twice at the first; where cron names every hour it goes on through both;
//   - what has to be computed for one decision is bounded, whatever the Schedule and however long nothing was published.
package schedule
