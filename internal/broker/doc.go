// Package broker is Rouse's client of NATS JetStream. It is the only package
// that imports nats.go: the packages above it use events, messages, consumers
// and backlogs, never the client library.
//
// It owns the connection, the streams (events, retries and dead letters), durable
// pull consumers, the wire format of a stored event, publishing, receiving and
// settling. It guarantees:
//
//   - Publish returns nil only after the server has confirmed that the event is
//     stored, and while there is no connection it fails at once instead of
//     buffering.
//   - What is published while the last publishes are being stored is stored together, as a batch where that takes less
//     time. What one caller publishes keeps its order.
//   - Whatever Publish stored can be decoded again, data bytes included.
//   - All sources of a consumer together hold no more messages than it allows. A
//     message that reaches this process after its source has stopped is handed
//     back to the server at once, not after the consumer's AckWait, unless the
//     connection is gone.
//   - The messages that a source holds and has requested fit into its [MemoryBudget].
//   - Of the sources of an ordered consumer one receives at a time, in the order of the
//     stream, and only when no other holds a message of it.
//   - An ack of a source that holds messages ahead may be sent with others, after half a millisecond at most, and
//     before the connection closes.
//   - An event that waits for its next attempt is stored before it is acked, and
//     comes back to its own consumer alone. While that does not exist it waits, also if that
//     was so for a moment while it went there. One of a Subscription that is gone never
//     comes to another of its name.
//   - The time of a retry depends on the server's clock alone, and not on how many others
//     wait, of which namespace they are, or whether they can be delivered.
//   - The event of a detached call is stored before its message is acked, and the copy is deleted only after the
//     event is settled otherwise. A bridge that dies meanwhile costs it no attempt.
//   - No namespace takes more of the retries' stream than it leaves free.
//   - A new stream takes no event before it has the consumers that it is made with, and before
//     the streams of dead letters and retries are there unless they are broken, see
//     [Conn.EnsureStreamsFor].
//   - [Conn.DropUnwanted] removes messages that no consumer of any client wants, and nothing else.
//   - A backlog is read from the consumer's leader. A consumer that does not exist
//     is a different error from a backlog that is not known.
//   - A dead letter is stored before its message may be rejected, and a repeat
//     is stored once.
//   - A dead letter that is redriven is deleted only after its event is stored
//     for a consumer that exists, byte for byte as it was published.
//
// # Pull requests
//
// [Source] writes its pull requests itself: it always has one pending, so that an ack brings
// the next message without a round trip, and it notices when the server has dropped it, which
// the client library does not report reliably after a leader has changed. A request is for
// no more messages and bytes than fit into the [MemoryBudget] of the source. That memory is
// acquired before the request, and released with the messages.
//
// # Retries
//
// Retries wait in levels ([retryLevel]), all those of a level for the same time, so that each
// level is a queue whose head is the next to go on:
//
//	Retry --admit--> rouse.delay.2s.> --2 s later--> rouse.delay.500ms.> --> ... --due--> kyma.rouse-redelivery.<consumer>
//
// A forwarder of each bridge receives from a level's consumer, holds the retries that are due soon,
// and returns the rest to the server until shortly before they are due.
//
// # Detached calls
//
// [Message.Detach] takes the message out of its consumer's MaxAckPending while its call goes on. The copy that it stores in the retries'
// stream waits in one level, which is longer than the call may take, so that its sequence stays what it is:
//
//	Detach --admit--> rouse.call.4m16s.> --> ack of the message --> the call ends --> retry or dead letter, if need be --> copy deleted
//	                                                                     the bridge dies --4m16s later--> kyma.rouse-redelivery.<consumer>
//
// # Announcements
//
// That a Function is idle ([Conn.AnnounceIdle]) and how many replicas its work needs ([Conn.AnnounceWanted]) are messages of core NATS. An announcement may be lost or forged, so it may only
// have harmless effects, and whoever announces repeats it for as long as it is true.
//
// # Listening for the first publish
//
// [Conn.OnPublish] reports the first message that is published from now on. A caller
// that wants to sleep until there is work has to listen first and read the
// backlog second: an event that is published between the two is then seen by
// at least one of them, and with the opposite order by neither. One gap of
// milliseconds stays, because the server counts an event after it has routed
// it: an event that arrived just before the subscription may be missing from
// the first backlog that is read, so an empty backlog is to be read once more a
// little later. Publishes that happen while the connection is down are not reported
// either: read the backlog again after each reconnect (see [Conn.OnConnect]).
package broker
