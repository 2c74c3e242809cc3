// Package ingress is where publishers hand in events: POST /publish for CloudEvents in binary and structured mode and in
// batches, and POST /{application}/v1/events for Kyma's applications, which do not use CloudEvents yet and also list here
// which of their events are subscribed.
//
//	memory for the body --> decode --> validate --> trace headers --> Publisher (PubAck) --> 204
//
// Guarantees:
//   - 204, or 200 to applications, is sent only after the event is stored. Any other status means that this is not certain,
//     and the body has the reason: in plain text, to applications in JSON.
//   - A batch gets 204 only after all of its events are stored. Any other response has a result for each event, and sending
//     the same batch again stores none twice.
//   - Nothing is stored of an event that is malformed, too large or cannot be routed.
//   - A publisher gets Retry-After when a retry may succeed: with 408, 429, 502, 503, 504 and 507.
//   - The memory of all request bodies is bounded. A body counts as it arrives, and until the result of its events is known,
//     but not while its publisher reads the response. When the memory is exhausted, the bodies that have been arriving longest
//     are evicted, so that a slow publisher blocks no other.
//   - What publishers send creates a bounded number of series in the metrics.
//
// The statuses and the metrics eventing_epp_* are those of Kyma's publisher proxy, with these differences: batches are
// accepted; 5xx responses have reasons too; a body that does not arrive in time gets 408 instead of 400, and a late answer
// of the stream 503 instead of 500, because a retry helps; and eventing_epp_event_type_published_total names only the first
// types and sources and counts the others as other, because any publisher could grow the number of series without bound.
package ingress
