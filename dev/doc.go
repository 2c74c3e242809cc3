// Package dev is the local mode: Functions, Subscriptions and everything that carries events between them in one process,
// without a cluster, a container or root.
//
//	folder --> manifest --> function ----> processes of the real runtimes
//	               |            ^  endpoints       ^
//	               v            |                  |
//	apirules, subscriptions     autoscale <-gRPC-> scaler
//	               |                               |
//	               +--> JetStream (embedded) <--> eventbridge
//
// The eventbridge, the scaler and what serves APIRules are the packages that run in a cluster. What Kubernetes, KEDA and
// the controller do there is done by the small packages below this one; this package puts them together, watches the
// folder, and stops everything in order.
//
// It guarantees:
//   - what is wrong in one file stops nothing else;
//   - a stop is bounded and leaves no process, and what was published and not delivered is there at the next start;
//   - everything listens on loopback alone, and what could be asked for secrets or changes asks for a token.
package dev
