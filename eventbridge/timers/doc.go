// Package timers publishes what is due: the events of Schedules, and events that were published with a time at which they are
// to go on.
//
// All bridges know all of it and rank themselves for each Schedule and each delayed event: the first acts when it is due, the
// next one two seconds later, and so on, unless it has learned that it is done. One that is silent for three quarters of a
// second is taken for dead, and the next one is the first. What two of them publish is stored once, since it has the same id,
// unless the leader of the stream was restarted between the two and the event is settled.
//
//	Schedules, cursors ----> schedules --+          +--> Publisher --> cursor stored
//	                                     +--> crew -+
//	delayed events    ----> delayed   --+          +--> Publisher --> delayed event deleted
//	                           ^ alarms, by the server's clock
//	beats of other bridges --> peers: who lives, and which rank this bridge has
//
// It guarantees:
//   - Nothing is published before it is due by the clock of NATS, and nothing that is stored is left out: what could not be
//     published is tried again until it is.
//   - A due time of a Schedule has one event, with the same id whoever publishes it. The stream of events recognises a
//     repeat for two minutes; only when all bridges die between the event and its cursor, and none comes back for as long,
//     it is stored twice. A bridge that is stopped has two seconds to finish what it has begun.
//   - A delayed event is deleted after it is stored as an event, and so published at least once.
//   - A namespace takes no more of what delayed events may take than it leaves free, and the work on what is due takes turns
//     by namespace.
package timers
