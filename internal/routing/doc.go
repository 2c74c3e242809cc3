// Package routing translates a Subscription into a Route of the data plane: the subjects that it listens to, its durable consumer, and
// the Service that receives the events. It also reports whether any Subscription matches an event, and which event its publisher
// may have meant otherwise.
//
// It is pure and depends only on the API types, not on Kubernetes clients or NATS, so that the controller, the eventbridge and the
// scaler get the same result without communicating.
//
// It guarantees:
//   - Every subject of a Route is valid for JetStream.
//   - The name of a consumer depends only on namespace and name.
//   - A Route leads out of the Subscription's namespace only where a Policy allows its host, and never to a host of NeverSink.
//   - With rules in Access, a Route has no subject that a rule does not cover wholly.
//   - The search for a similar event is bounded whatever Subscriptions and publishers write: only names of similar length are
//     compared.
package routing
