// Package fair shares scarce resources by key: a namespace, an account or the address of a client.
//
//	Pool    units (places, permits, bytes): taken at once, or waited for in turn
//	Queue   items in turn by key, for callers with a scheduler of their own
//	Budget  bytes of long-lived holders, each with some of its own
//
// Guarantees:
//   - All keys together never hold more than the total. Of a Budget only Overdraw exceeds that, by one share of each key at a time.
//   - A key takes no more than it leaves free. So one that takes all it can leaves half to the others, two leave a third, and a key that
//     has nothing always finds something. Where a share is named, the key takes up to that.
//   - Waiting requests are bounded by the same rule, so that no key fills the queue.
//   - Of the keys that wait, the one comes first that was charged least, and of several the one that waits longest. A key that is over its
//     share, or has many requests, holds up no other; a large request is not passed for ever by small ones.
//   - Memory is bounded by the held units and the waiting requests. There are no background goroutines; a wait ends with its caller's context.
package fair
