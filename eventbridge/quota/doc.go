// Package quota protects the stream of events from filling up: it bounds how much of it one namespace may hold, and refuses
// new events shortly before it is full.
//
// A Monitor polls the use of the stream. While that is less than one namespace's share it requests nothing else. Otherwise
// it requests the number of pending events of each consumer, and reads their bytes where these may exceed the share. The
// Subscriptions of a namespace over its share get a Limit of pending events; the dispatcher dead-letters the oldest ones
// beyond it. The enforce callback gets all of them after each poll, for those without a dispatcher.
//
// A StorageMonitor polls how full the streams are. A full stream refuses new events, but also retries and redrives. So
// publishers are refused above a watermark, while stored events still find room and can be settled.
//
// Guarantees:
//   - A namespace within its share, in events and in bytes, loses nothing.
//   - Bytes are read and not sampled, so that no mixture of sizes is underestimated. One poll reads at most what two shares
//     hold of each consumer, and polls are seconds apart.
//   - A namespace that is alone in the stream has no quota: there is no other namespace to protect.
//   - While the stream does not answer nothing is dead-lettered. The last known fill of a stream is used for ten seconds;
//     after that no event is refused here, because the server refuses events itself when it is full.
//   - Measuring the fill costs one request per stream every two seconds, and four per second close to the watermark, so that
//     a burst of events does not pass it between two polls. Full takes no lock and sends no request.
package quota
