// Package subscription reconciles Subscriptions: each gets one durable pull
// consumer, which keeps its events until the bridge delivers them. It also makes
// the streams that hold the events.
//
// It guarantees that a consumer exists for as long as its Subscription does,
// also while the sink is missing, that both are brought together again after
// NATS or the controller was away, and that the status reports what is wrong. A
// consumer or a stream that a client deletes is created again as soon as NATS
// reports it, a stream with its consumers before its first event; and what consumers
// have left behind that are gone is removed from the stream.
package subscription
