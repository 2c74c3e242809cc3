// Package chain bounds what one event causes, and knows what has caused an event.
//
// A chain is an event that nothing is known to have caused, and all that sinks answer and publish because of it. With each delivery a
// sink gets a pass: signed, in the request's tracestate, which runtimes and libraries for tracing pass on with what they send. Who
// publishes with it continues the chain; whatever else a publisher says of one is dropped, since anybody can write attributes.
//
// Guarantees:
//   - In the name of one namespace a replica publishes no more events of a chain than its limit, and as many more as are being stored at
//     that moment. All replicas together publish no more than their number times that, and usually less: an event carries the count of
//     who published it, and who publishes because of it goes on from there.
//   - No namespace uses up what another may cause, and no publisher without a pass what a chain may.
//   - Memory is a fixed table for each namespace that has caused something within two windows. Chains may be counted too high in it,
//     never too low, when a namespace causes some hundreds of thousands of events within a window.
//   - Nothing is asked of anybody: not of the store, and not of other replicas.
package chain
