// Package sink connects to the receiver of one Subscription's events: its addresses, whether
// it is reachable, and the request itself.
//
//	Endpoints.Watch --> endpoint.Pool (addresses, dialled until they accept)
//	                      |      ^
//	               gate opens,   address refused
//	               closes        |
//	                      v      |
//	              dispatcher --> Send --> pod
//
// Guarantees:
//   - The gate is open exactly while internal/endpoint believes that an address accepts connections, so a cold start
//     does not wait for the next readiness probe.
//   - A terminating endpoint gets no new request.
//   - An event goes out in CloudEvents binary mode with the sink's own host, path and query, straight to the
//     pod that has the fewest requests of this sink in flight. Redirects are not followed. Bodies of answers
//     are drained, so connections are kept.
//   - With a Signer an event goes out in structured mode, so that the signature covers its attributes, and is never sent without one.
//   - A request to a Service of the cluster has the header Rouse-Via: eventbridge, by which a Function's runtime recognizes calls
//     that are counted here too. No event can set it, and no external sink gets it.
//   - An address that refuses connections is skipped at once and another is tried within the same Send; ErrSinkGone
//     means that the event cannot have reached any server.
//   - With EndpointsService, for meshes, events go to the Service's own address. The gate then waits for
//     readiness probes, because a Service has no ready pod before.
//   - An external sink has no gate: it is resolved for each connection, and a refused connection is an attempt. No
//     name resolves to the process itself, its link or a cloud's metadata, whatever the rules allow.
//   - Small events go to pods over plain HTTP without net/http, which would cost half as much again; others
//     use it. Both look the same to a sink.
//   - A TLS handshake, in which the server may send certificates, waits for the memory budget as well.
//   - An answer that is an event is read up to Options.MaxReplySize, once the budget has memory for it. Headers have
//     at most 16 KiB and 64 lines, counted as they come.
//   - Sinks share a Network, and nothing else: none waits for another. An idle one takes a few hundred bytes
//     and the goroutine of Run.
package sink
