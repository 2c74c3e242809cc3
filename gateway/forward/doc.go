// Package forward holds what both ways of forwarding a request share, to a Function's pods (gateway/activator) and to any
// other Service (gateway/apirules): limits, buffers, the identity of callers, and how a body is read from a caller that may
// stop sending it.
//
// A Caller is identified by its address. Behind a trusted proxy that is the address that the proxy has seen; any other proxy
// counts as one caller.
//
// Guarantees:
//   - A body that did not reach its end ends its connection. The caller gets an error response if none has begun.
//   - A request without a response is aborted, so that the caller never takes silence for success.
//   - The head of a backend's response is bounded as it arrives, and its memory by namespace.
//   - Rouse's own headers are neither in 1xx responses nor in trailers.
package forward
