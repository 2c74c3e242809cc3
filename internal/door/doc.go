// Package door decides about the requests that arrive at Doors: whether their sender is who may send, and which event they become.
// It also signs what leaves the cluster as a webhook.
// It uses no clock and no network: callers say what time it is and what is in a Door's Secret.
//
//	request --> Verify: signature | key | certificate --> Event: defaults of the scheme, mapping, types --> event
//
// It guarantees:
//   - a signature is verified over the bytes that arrived, before any of them is decoded, and compared in constant time; both keys
//     are tried for every request;
//   - a signed time counts in both directions: neither too old nor in the future;
//   - the source of an event is the Door's, whatever the request says, and the id of a repeated delivery is the same;
//   - the work for a request is bounded by its size, whatever it contains;
//   - a RefusalError tells the owner why; a sender is told nothing of it.
package door
