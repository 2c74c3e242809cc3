// Package chain bounds the events that one event causes, directly and indirectly, and links events to their cause.
//
// A chain is an event without a known cause, and all events that sinks reply with and publish because of it. With each
// delivery a sink gets a pass: signed, in the request's tracestate, which runtimes and tracing libraries propagate with what
// they send. An event published with a pass continues its chain; other claims of a publisher about a chain are dropped, because
// anyone can write attributes.
//
// Guarantees:
//   - For each namespace a replica publishes no more events of a chain than its limit, plus those that are being stored at that
//     moment. All replicas together publish at most their number times that, and usually less: an event carries the count of its
//     publisher's replica, from which later events continue.
//   - A namespace does not use up the limit of another one, nor a publisher without a pass that of a chain.
//   - Memory is a fixed table for each namespace that has caused events within two windows. Counts may be too high, never too
//     low, when a namespace causes some hundreds of thousands of events within a window.
//   - It sends no requests, neither to the store nor to other replicas.
package chain
