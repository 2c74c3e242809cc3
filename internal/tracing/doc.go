// Package tracing sends the spans of a process to a collector, over OTLP.
//
// It guarantees that a collector that is away holds nothing up: spans wait in a bounded queue, are dropped when it is full, and
// the log has one line when that begins and one when it ends. Without a collector there is no Provider and nothing is done.
package tracing
