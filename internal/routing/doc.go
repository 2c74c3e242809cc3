// Package routing says what one Subscription means to the data plane: which
// subjects it listens to, under which durable consumer, and which Service gets
// the events.
//
// It is pure: it knows the API types and nothing of Kubernetes clients or NATS,
// so that the controller, the eventbridge and the scaler come to the same
// answer without asking each other.
//
// It guarantees that every subject of a Route is one that JetStream takes, that
// consumer names do not depend on anything but namespace and name, and that a
// Route never leads out of the Subscription's namespace unless a Policy allows
// its host, and nowhere that NeverSink names. With rules in Access, a Route has no
// subject that a rule does not cover wholly.
//
// Package interest reports whether any Subscription takes an event, and which event its publisher may have meant when none
// does. It is for those who show events to people; what is delivered is decided by the consumers' subjects alone.
//
// It is pure, and bounded whatever Subscriptions and publishers write: only names that are near in length are compared.
package routing
