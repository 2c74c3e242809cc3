// Package natstest runs real nats-servers with JetStream inside a test.
//
// It guarantees that a server listens on a random loopback port, keeps its
// store in the test's temporary directory, comes back on the same port with
// the same store after Restart, and is gone when the test ends.
package natstest
