// Package activator serves HTTP requests of Functions: it holds them while no pod accepts connections (a cold start), and
// forwards them as soon as one does.
//
//	request --> counted --> pod ready? --no--> waits in the Function's queue --+
//	                           | yes                                           | a pod accepts a connection
//	                           +--------------> forwarded <--------------------+
//
// Activator hold a small state for each Function with requests. Ports listens on the activator ports of all Functions and is
// one listener to the server. A Table counts the requests of each Function and streams the counts to the scaler.
//
// Activator guarantee:
//   - A request is served whether the Function is warm or cold: with pods it is forwarded at once.
//   - A request is sent to one pod. It is retried on another one only if no connection to the first could be made, so that
//     nothing of it was sent. Its body is not read before.
//   - Requests and responses are streamed: bodies, server-sent events, trailers, upgraded connections. Active streams have no
//     time limit; a caller that stops sending its body, or reading the response, is cut off.
//   - Waiting is bounded: in time per request, in number per Function, in bytes overall. The namespace of the Functions and
//     the address of a caller take at most their share of these, and of the Functions that are woken concurrently. Excess
//     requests get 503 with Retry-After and the reason at once.
//   - A burst is forwarded at the pace at which pods answer (backpressure): a pod has at most 100 of the waiting requests
//     unanswered.
//   - Requests to a Function that cannot start fail at once, with the code of the reason and no details.
//   - Error responses of the gateway have the header Rouse-Refused, which no pod can set.
//   - GET /healthz and /metrics do not wake a Function, nor does the path at which runtimes report their load.
//   - While a pod is ready, responses end their connection, so that the next request reaches the pod directly. Callers without
//     another way keep it: callers from outside, served by Serve, and those of local mode.
//   - Callers from outside cannot wake a Function by probing its health, and do not reach its metrics and load.
//
// The load stream guarantees:
//   - A request counts from its arrival until its response is complete, either as waiting or as running.
//   - The first request of an idle Function is sent to all streams at once, further changes within 100 ms. There is a line
//     each second, so that a silent stream is broken.
//   - A slow reader gets the newest counts, and costs no more memory than one entry per Function.
//   - There are at most 16 streams, none for a request whose body the server would have to wait for.
//
// Ports guarantees:
//   - A connection belongs to the Function that had its port when it was accepted; see [Of].
//   - A port that cannot be opened is reported and tried again with the next Set, and does not affect others.
//   - Connections outlive the port at which they were accepted.
package activator
