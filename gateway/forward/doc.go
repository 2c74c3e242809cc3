// Package forward holds what both ways of forwarding a request share, that to a Function's pods (gateway/activator) and that to any other
// Service (gateway/apirules): limits, buffers, and how a body is read from a caller who may stop sending it. It guarantees:
//   - a body that did not reach its end is the end of its connection, which the caller is told by the answer where there is none yet;
//   - a request that nobody has answered is aborted, and never answered by silence;
//   - the head of a backend's answer is bounded as it comes, and in memory by namespace;
//   - headers of Rouse's own come neither in answers 1xx nor in trailers.
package forward
