// Package nats runs a nats-server with JetStream inside this process, for the local mode.
//
// It owns the server and its folder. It guarantees:
//   - it listens on loopback alone, at a random port, and asks for a token;
//   - what streams hold is there at the next start from the same folder;
//   - it handles no signals and prints nothing: its messages go to the log.
package nats
