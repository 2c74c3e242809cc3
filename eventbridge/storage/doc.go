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
package storage
