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
//
// Package control is the HTTP API of a running local mode: it reports how its Functions and
// Subscriptions are, and what the Functions print.
//
//	GET /v1/functions                                       {"functions": [...]}
//	GET /v1/subscriptions                                   {"subscriptions": [...]}
//	GET /v1/functions/{namespace}/{name}/log?tail=&follow=  a line of JSON for each line
//
// It owns routes, authentication and the JSON of answers. It guarantees:
//   - nothing is answered without the bearer token;
//   - only requests that name a loopback address as their host are answered, so that no page in a browser reaches it
//     under a name that resolves to this machine;
//   - every answer is JSON, errors included.
//
// Package subscriptions is the Subscription controller's part in local mode: it gives each Subscription of the folder its
// durable consumer, and publishes its route to the eventbridge and the scaler.
//
//	folder --Apply--> wanted --sync--> streams, consumers --then--> routes --> eventbridge, scaler
//
// It owns the streams and the consumers, and decides nothing about deliveries. It guarantees:
//   - a route is published only once its consumer exists, so that the first event after it is kept;
//   - the consumer and the waiting retries of a Subscription that is gone from the folder are deleted after the last
//     delivery to it. Dead letters stay;
//   - one that is only wrong just now, or whose file cannot be read, keeps its consumer, its events and its route;
//   - what fails is reported once and retried;
//   - a stream or a consumer that another client deletes is recreated at once.
//
// Package apirules is the gateways' part for APIRules in local mode: it serves those of the folder at one port of this machine.
//
//	folder --Apply--> wanted --internal/apirule--> gateway/apirules <-- gateway/entrance <-- client of this machine
//	                                                     |
//	                                                   Serve: a Function, which it wakes
//
// Host, rules, tokens, CORS, headers and timeouts are judged by the packages that do so in a cluster. What there is around the APIRules
// is the folder: its Functions are the Services, whatever gateway an APIRule names has the domain localhost, and there are no
// authorizers.
//
// It guarantees:
//   - an APIRule that is only wrong just now, or whose file cannot be read, is served as it was, as a cluster does with one that it
//     refuses; what is wrong in one that a cluster accepts closes its host, or its rule alone;
//   - nothing but hosts of the folder's APIRules is answered, so that a page of another site that has its name resolve to this
//     machine gets 404.
package dev
