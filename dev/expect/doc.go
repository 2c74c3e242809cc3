// Package expect compares what a run of local mode did with what a file expects of it: the events that were emitted, the answers of
// Functions to events, and the dead letters. It reads no file and no clock.
package expect
