// Package httplimit bounds the resources that HTTP peers may hold: the connections and the time of a server, and the memory
// for the heads of responses.
//
//	Meter    the wait of one server for one client: a deadline that received bytes put off, and the time since which the server waits
//	Exchange both directions of a client: whether its server waits for it at all
//	Places   the places of a server: shared by key; the slowest client of a share is evicted for a further one
//	Head     counts the lines and bytes of one response head, and of the interim responses before it
//	Count    counts the connections of an http.Transport
//	Account  the memory of one request with a long response head, shared by key
//
// It guarantees for clients of a server:
//   - A client that moves Rate bytes a second is never behind, whatever pauses the server makes. One that trickles falls behind by all
//     the time that the server has waited for it, less the time that its bytes may take: an occasional byte does not postpone the deadline.
//   - Bytes ahead of the pace give no later credit beyond the Meter's limit: the client may pause no longer than
//     any other.
//   - A Meter can be read without a lock while its client is waited for.
//   - Places never exceed their total, nor their shares. A client that is in time keeps its place.
//
// It guarantees for the head of a response, of which net/http bounds the bytes alone, although each line of four bytes takes a hundred in
// memory:
//   - no more than MaxBytes and twice MaxLines are read, interim responses included; beyond that the request fails with an Error;
//   - a long head is read on only while its key has a share of the memory left;
//   - the request is not sent again because of it: the first bytes of the response are read before any error.
package httplimit
