// Package target is where commands find what they talk to: the local mode that runs on this machine, or a cluster.
//
// It owns how bridges, Functions and their logs are reached in either. It guarantees:
//
//   - A cluster is only touched when a context or a kubeconfig was named.
//   - A gateway gets requests for a Function only after it has said that it answers for this one.
//   - What it opens is closed by Close, and it listens on loopback only.
//   - Errors have what is missing and what to do, and carry an exit code.
//   - Tokens never appear in errors.
//
// Package bridge asks the admin API of eventbridges: for dead letters, Subscriptions, and what happened to events.
//
// It owns that API as its clients see it. It guarantees that its errors have an exit code and never the token, and that
// what a redrive or purge did is reported also when it did not come to its end.
package target
