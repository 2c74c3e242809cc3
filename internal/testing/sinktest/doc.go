// Package sinktest is the receiving side of deliveries for tests: a real HTTP server on loopback that
// records what it is sent, can be stopped and started again on the same address, and a list of endpoints
// that a test changes.
package sinktest
