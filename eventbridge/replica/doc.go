// Package replica puts a bridge together with its store on JetStream: what cmd/eventbridge, local mode and the benchmarks
// run is the same, down to the defaults, which are the chart's values.
package replica
