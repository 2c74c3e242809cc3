// Package target connects commands to Rouse: the local mode on this machine, or a cluster.
//
// It owns the connections to Functions, their logs, and the admin API of eventbridges (dead letters, Subscriptions, events). It guarantees:
//
//   - A cluster is only touched when a context or a kubeconfig was named.
//   - A gateway gets requests for a Function only after it confirmed that its port belongs to the Function.
//   - Close closes all connections, and listeners are only on loopback.
//   - Errors name the cause and the remedy, and carry an exit code.
//   - Tokens never appear in errors.
//   - A redrive or purge reports its result even when it fails halfway.
package target
