// Package target connects commands to Rouse: the local mode on this machine, or a cluster.
//
// It owns the connections to Functions, their logs, and the admin API of eventbridges (dead letters, Subscriptions, events). It guarantees:
//
//   - A cluster is only touched when a context or a kubeconfig was named.
//   - A gateway gets requests for a Function only after it confirmed that its port belongs to the Function.
//   - What it opens is closed by Close, and it listens on loopback only.
//   - Errors name the cause and the remedy, and carry an exit code.
//   - Tokens never appear in errors.
//   - A redrive or purge reports what it did, also when it fails halfway.
package target
