// Package activate answers HTTP requests of Functions: it holds them while no pod takes connections, and forwards them as soon as
// one does.
//
//	request --> counted --> pod there? --no--> waits in the Function's queue --+
//	                           | yes                                           | a pod accepts a connection
//	                           +--------------> forwarded <--------------------+
//
// It owns one small state for each Function that has requests. It guarantees:
//   - a request is answered, warm or cold: with pods it is forwarded at once;
//   - a request is sent to one pod. It is tried again at another only when the connection to a pod was not made, so that nothing of
//     it was sent. Its body is not read before;
//   - what is sent and received is a stream: bodies, server-sent events, trailers, upgraded connections. No time limit is put on
//     what moves; a caller who stops sending his body, or reading his answer, is cut off;
//   - waiting is bounded: in time for each request, in number for each Function, in bytes for all. Of these, and of the Functions that are
//     woken at a time, the namespace of the Functions and the address of a caller take no more than their share. What is beyond gets 503
//     with Retry-After and why, at once;
//   - a burst goes out at the pace at which pods answer: of those that waited, a pod has 100 at a time without an answer;
//   - a Function that is known not to start answers at once, with the reason's code and nothing else of it;
//   - an answer that is none of a pod's says so in the header Rouse-Refused, which no pod can set;
//   - GET /healthz and /metrics wake nobody, nor does the path at which runtimes tell their load;
//   - while a pod is ready, answers end their connection, so that callers go to it the next time. Those who have no other way keep it:
//     callers from outside, whom Serve answers, and those of local mode;
//   - callers from outside wake nobody by asking for the health of a Function, and do not find its metrics and its load.
//
// Package load counts the requests of each Function that a gateway has, and streams the counts to who asks.
//
// It guarantees:
//   - a request counts from when it has arrived until its answer is complete, as waiting or as running, never as both;
//   - the first request of a Function that has none is on its way to all streams at once, further changes within 100 ms, and
//     there is a line each second, so that a stream that is silent is broken;
//   - a reader that is slow gets the newest counts, and costs no more memory than one entry for each Function;
//   - there are at most 16 streams, none of them for a request whose body the server would have to wait for.
//
// Package ports listens on the activator ports of all Functions, and is one listener to the server.
//
// It guarantees:
//   - a connection belongs to the Function that had its port when it was accepted, see [Of];
//   - a port that cannot be opened is reported and tried again with the next set, and closes no other;
//   - connections outlive the port at which they came.
package activator
