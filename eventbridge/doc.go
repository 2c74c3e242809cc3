// Package eventbridge is the data plane: it accepts events over HTTP into the stream, and delivers them from the stream to
// the sinks of the Subscriptions, at least once.
//
//	POST /publish --> ingress --> Store (PubAck) ...... Store --> dispatch --> sink --> pod
//	                                                                ^           ^
//	                                                             Routes     Endpoints
//
// A Bridge runs one dispatcher and one sink per Subscription, and another pair for the dead letters of each Subscription
// that names a dead-letter sink. The interfaces Routes, sink.Endpoints and Store hide where Subscriptions, addresses and
// events come from, so that the same bridge runs in a cluster and in a single local process. The Store on NATS is package
// jetstream, which alone imports internal/broker. All replicas are equal: they share the messages of each Subscription and
// need no leader election.
//
// Filters run in the bridge. Light evaluations run in place; costly ones run one at a time in the Subscription's lane, with
// a permit of a pool that leaves at least half of the processors to other work. A free permit goes to the tenant that has
// used the least time, and among its lanes to the one that has waited longest, so that a tenant with many lanes gets no more
// than one with a single lane.
//
// Guarantees:
//   - A new Subscription is served at once, and a changed one continues with its new sink or limit at once: its running
//     deliveries complete on their own. An ordered one continues after them. A removed one stops after its running deliveries.
//   - On graceful shutdown /readyz fails first, then the ingress stops accepting events, then deliveries drain. Metrics and
//     health are served until the end.
//   - A costly filter delays only its own Subscription, and no publisher. It uses at most a quarter of a processor over
//     time, and all filters together at most half of the processors. No evaluation is cut short: it is only delayed.
//   - The memory of all deliveries of a Bridge is bounded, and no namespace takes more of it than it leaves to others.
//   - Events that a Subscription holds above its namespace's share of the stream become dead letters whatever its spec, also
//     where the Subscription is invalid or deleted.
//   - An outage of the broker or of the Kubernetes API needs no restart.
package eventbridge
