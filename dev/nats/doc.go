// Package nats runs a nats-server with JetStream inside this process, for the local mode.
//
// It owns the server and its folder. It guarantees:
//   - it listens only on loopback, at a random port, and requires a token;
//   - the contents of streams persist until the next start from the same folder;
//   - it handles no signals and prints nothing: its messages go to the log.
package nats
