// Package otlptest is a collector of OpenTelemetry spans for tests.
//
// It guarantees that it accepts OTLP over HTTP as collectors do (POST /v1/traces, protobuf, optionally gzip), and
// responds with 400 to anything else.
package otlptest
