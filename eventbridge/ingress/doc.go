// Package ingress is where publishers hand events in: POST /publish, CloudEvents in binary and structured
// mode.
//
//	body limit --> decode --> validate --> trace headers --> Publisher (PubAck) --> 204
//
// Guarantees:
//   - 204 is answered only after the event is stored. Any other status means that it is not known to be,
//     and the body says why in plain text.
//   - Nothing is stored of an event that is malformed, too large or cannot be routed.
//   - Whoever may try again later is told when: 408, 429, 502, 503, 504 and 507 carry
//     Retry-After.
//
// The statuses and the metrics eventing_epp_* are those of Kyma's publisher proxy. Four differences: reasons
// also come with 5xx; a body that does not arrive in time is 408 and not 400, because trying again helps; an answer of the stream that is late is 503 and not 500 for the same reason;
// and there is no eventing_epp_event_type_published_total, because event types as labels let any publisher
// grow the number of series without bound.
package ingress
