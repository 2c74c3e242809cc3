// Package natstest runs real nats-servers with JetStream inside a test.
//
// It guarantees that a server listens on a random loopback port, keeps its store in the test's temporary directory,
// uses the same port and store after Restart, and is stopped when the test ends.
package natstest
