// Package load counts the requests of each Function that a gateway has, and streams the counts to who asks.
//
// It guarantees:
//   - a request counts from when it has arrived until its answer is complete, as waiting or as running, never as both;
//   - the first request of a Function that has none is on its way to all streams at once, further changes within 100 ms, and
//     there is a line each second, so that a stream that is silent is broken;
//   - a reader that is slow gets the newest counts, and costs no more memory than one entry for each Function;
//   - there are at most 16 streams, none of them for a request whose body the server would have to wait for.
package load
