// Package tracecontext carries the trace context of a request across the stream: as headers on HTTP, as
// extensions on an event.
//
// It guarantees that a trace that a publisher started is the one that the sink sees, in the same headers,
// and that none of it is left among the event's own attributes.
package tracecontext
