// Package forward holds what both ways of forwarding a request share, to a Function's pods (gateway/activator) and to any
// other Service (gateway/apirules): the exchange itself, the connections to backends, limits, buffers, the identity of callers,
// and how a body is read from a caller that may stop sending it.
//
//	Exchange (header, 1xx, trailer) --> Backend.Send --> Transport --> body that came with its head: own connections
//	                                                        |
//	                                                        +-------> other bodies, upgrades: http.Transport
//
// A Caller is identified by its address. Behind a trusted proxy that is the address that the proxy has seen; any other proxy
// counts as one caller.
//
// Guarantees:
//   - An Exchange forwards as httputil.ReverseProxy does, and sends each part of a response at once.
//   - Nothing of a body is read before there is a connection, and one that does not come at once is a stream.
//   - A request is sent again only if nothing of it was sent, or if it is a GET, HEAD, OPTIONS or TRACE without a body whose
//     connection was used before and closed without an answer, as by http.Transport.
//   - A body that did not reach its end ends its connection. The caller gets an error response if none has begun.
//   - A request without a response is aborted, so that the caller never takes silence for success.
//   - The head of a backend's response is bounded as it arrives, and its memory by namespace.
//   - Rouse's own headers are neither in 1xx responses nor in trailers.
package forward
