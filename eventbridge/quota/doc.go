// Package quota bounds how much of the stream of events the Subscriptions of one namespace keep there.
//
// A Monitor polls how full the stream is. While that is less than one namespace's share it asks nothing else. Then it asks
// what waits for each consumer, and reads how many bytes that is where it may be too much. The Subscriptions of a namespace
// that is over its share get a number of events that may wait; those beyond, the oldest first, are theirs to give up. A
// dispatcher asks for its Limit; the enforce callback gets all of them after each poll, for those that have none.
//
// Guarantees:
//   - A namespace that keeps no more than its share, in events and in bytes, gives up nothing.
//   - Bytes are read and not sampled, so that no mixture of sizes passes for less than it is. One reading takes no more than
//     what two shares hold, of each consumer, and there are seconds between two.
//   - A namespace that has the stream to itself has no quota: there is no other namespace to protect.
//   - While the stream cannot be asked nothing is given up.
//
// Package storage watches how full the streams are, and says when no further event shall be taken.
//
// A full stream refuses everything: new events, but also those that come back for another attempt or are redriven. So
// publishers are turned away a little earlier, above a watermark, while what is already stored still finds room and
// can be settled.
//
// Guarantees:
//   - Asking costs one bounded request for each stream every two seconds, and four times a second close to the watermark, so that a
//     burst of events does not run past it between two polls.
//   - Whether events are taken is read without a lock or a request.
//   - When the streams cannot be asked, what was last known counts for ten seconds. Then nothing is refused: the
//     server itself does that when it is full.
package quota
