// Package dev implements local mode: it runs Functions, Subscriptions, APIRules and the event broker in one process, without a cluster,
// containers or root.
//
//	folder --> manifest --> runner ------> processes of the real runtimes
//	               |            ^  endpoints       ^
//	               v            |                  |
//	apirules, subscriptions     autoscale <-gRPC-> scaler
//	               |                               |
//	               +--> JetStream (embedded) <--> eventbridge
//
// The eventbridge, the scaler and the gateway of APIRules are the packages that run in a cluster. The packages below this one replace
// Kubernetes, KEDA and the controller; this package connects them, watches the folder, and shuts everything down in order.
//
//   - Subscriptions: each gets its durable consumer, then its route is published to the eventbridge and the scaler, so that the first event
//     after it is stored.
//   - APIRules: one loopback port serves those of the folder. Host, rules, tokens, CORS, headers and timeouts are evaluated by the packages
//     of a cluster. The folder's Functions are the Services, every gateway has the domain localhost, and there are no authorizers.
//   - Control API: GET /v1/functions, /v1/subscriptions and /v1/functions/{namespace}/{name}/log report status and logs as JSON,
//     /v1/events the last published events.
//   - Dashboard: package dashboard serves it on a port of its own, with what the other parts know.
//
// It guarantees:
//   - an error in one file affects only the objects of that file; an object that is temporarily invalid or unreadable stays as it was;
//   - an error is reported once, and the operation is retried;
//   - consumers and pending retries of a deleted Subscription are removed after its last delivery; dead letters stay;
//   - a stream or consumer that another client deletes is recreated at once;
//   - a shutdown is bounded and leaves no process; events that were not delivered are stored for the next start;
//   - all ports are on loopback, and APIs with secrets or changes require a bearer token;
//   - requests are served only for loopback hosts, or hosts of the folder's APIRules, so that a web page whose name resolves to this machine
//     (DNS rebinding) is refused.
package dev
