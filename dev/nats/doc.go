// Package nats runs a nats-server with JetStream inside this process, for the local mode.
//
// It owns the server and its folder. It guarantees:
//   - it listens on loopback alone, at a port that nobody chose, and asks for a token;
//   - what streams hold is there at the next start from the same folder;
//   - it handles no signals and prints nothing: what it says goes to the log.
package nats
