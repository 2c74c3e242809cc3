// Package eventbridge is the data plane: it takes events over HTTP into the stream, and delivers them from
// the stream to the sinks of the Subscriptions.
//
//	POST /publish --> ingress --> Store (PubAck) ...... Store --> dispatch --> sink --> pod
//	                                                                ^           ^
//	                                                             Routes     Endpoints
//
// A Bridge runs one dispatcher and one sink per Subscription, and another pair for the dead letters of a Subscription
// that names a sink for them. Which Subscriptions there are, where their
// sinks can be reached and where events are stored stands behind the interfaces Routes, sink.Endpoints and
// Store, so that the same bridge runs in a cluster and in a single local process. The Store on NATS is package jetstream, which
// alone imports internal/broker. All replicas are equal:
// they share each Subscription's messages and need no leader.
//
// Guarantees:
//   - A Subscription that is new is served at once, and one whose sink or limit changed continues there at once: its
//     running deliveries end in their own time. One that keeps an order continues after them. One that is removed stops
//     after its running deliveries.
//   - When the context ends /readyz fails first, then the ingress stops taking events, then deliveries
//     drain. Metrics and health answer until the end.
//   - A costly filter delays its own Subscription alone, and no publisher: see fairshare.
//   - What all deliveries of a Bridge hold is bounded by bytes, and no namespace takes more of them than it leaves.
//   - What the consumer of a Subscription keeps above its namespace's share becomes dead letters whatever its spec is, also
//     where the Subscription is invalid or deleted.
//   - An outage of the broker or of the Kubernetes API needs no restart.
//
// Package fairshare bounds the processor time that costly work of tenants takes, and shares it fairly.
//
// A Pool has fewer permits than there are processors, so that what is not its work always finds one. A Lane is one
// source of work, such as a Subscription, of one tenant:
//
//	Enter, Leave  light work, at once and in place, while the lane's was light so far
//	Run           one at a time in a lane, within the lane's budget of time, with a permit
//
// A permit that comes free goes to the tenant that has used the least time, among its lanes to the one that waits
// longest. A tenant with many lanes gets no more than one with a single lane.
//
// Guarantees:
//   - No work is cut short or left out: what waits is only later.
//   - A lane uses at most a quarter of a processor over time, all lanes together at most half of the processors.
//   - Light work takes no lock. A tenant whose light work turns out heavy does no more in place for a while.
//   - What waits ends when its caller stops. The pool has no goroutines of its own.
package eventbridge
