// Package forward holds what both ways of forwarding a request share, that to a Function's pods (gateway/activate) and that to any other
// Service (gateway/expose): limits, buffers, and how a body is read from a caller who may stop sending it.
package forward
