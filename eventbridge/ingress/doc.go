// Package ingress is where publishers hand events in: POST /publish for CloudEvents in binary and structured mode and in
// batches, and POST /{application}/v1/events for Kyma's applications, which do not speak CloudEvents yet and also ask here
// what is subscribed.
//
//	budget of bytes --> body --> decode --> validate --> trace headers --> Publisher (PubAck) --> 204
//
// Guarantees:
//   - 204, or 200 to applications, is answered only after the event is stored. Any other status means that it is not known
//     to be, and the body says why: in plain text, to applications in JSON.
//   - A batch is answered with 204 only after all of its events are stored. Any other answer says of each event what
//     became of it, and sending the same batch again stores none twice.
//   - Nothing is stored of an event that is malformed, too large or cannot be routed.
//   - A publisher that may try again later learns when: 408, 429, 502, 503, 504 and 507 carry
//     Retry-After.
//   - The bodies of all requests take no more memory than the options allow. A body counts as it arrives, and until it is
//     known what became of its events: not while its publisher reads the answer. When the memory is exhausted,
//     bodies that have been arriving longest are evicted, so a slow publisher blocks no other.
//   - What publishers send makes a bounded number of series in the metrics.
//
// The statuses and the metrics eventing_epp_* are those of Kyma's publisher proxy. Four differences: batches are
// taken; reasons also come with 5xx; a body that does not arrive in time is 408 and not 400, because trying again helps,
// and an answer of the stream that is late is 503 and not 500 for the same reason; and
// eventing_epp_event_type_published_total names only the first types and sources and counts the others as other, because
// any publisher could grow the number of series without bound.
package ingress
