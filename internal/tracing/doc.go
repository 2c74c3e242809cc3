// Package tracing sends the spans of a process to a collector, over OTLP.
//
// It guarantees that an unavailable collector delays nothing: spans wait in a bounded queue, are dropped when it is
// full, and the log has one line when an outage begins and one when it ends. Without a collector there is no Provider
// and no work.
package tracing
