// Package sink is the way to the receiver of one Subscription's events: where it can be reached, whether
// it can be reached at all, and the request itself.
//
//	Endpoints.Watch --> pool of addresses <-- dialler (TCP connect, until accepted)
//	                      |          ^
//	               gate opens,   address refused
//	               closes            |
//	                      v          |
//	                  dispatcher --> Send --> pod
//
// Guarantees:
//   - The gate is open exactly while there is an address that is believed to accept connections: ready by
//     its probe, or a starting Function that accepted a connection, and not refused since.
//   - A Function's address is dialled from the moment it is known, so that a cold start does not wait for
//     the next readiness probe.
//   - An endpoint that terminates gets no new request.
//   - An event goes out in CloudEvents binary mode with the sink's own host, path and query, straight to a
//     pod, round robin. Redirects are not followed. Bodies of answers are drained, so connections are kept.
//   - An address that refuses is left out at once and another is tried within the same Send; ErrSinkGone
//     means that the event cannot have reached anyone.
package sink
