// Package otlptest is a collector of OpenTelemetry spans for tests.
//
// It guarantees that it understands OTLP over HTTP as collectors do (POST /v1/traces, protobuf, gzip or not), and
// that what is not that gets 400.
package otlptest
