// Package tracecontext carries the trace context of a request across the stream: as headers on HTTP, as extensions on an
// event.
//
// It guarantees that the sink sees the trace that the publisher started, in the same headers, and that none of it remains
// among the event's own attributes.
package tracecontext
