// Package subscription reconciles Subscriptions: each gets one durable pull consumer, which keeps its events until the
// bridge delivers them. It also creates the streams that hold the events.
//
// It guarantees that
//   - a consumer exists as long as its Subscription does, also while the sink is missing;
//   - consumers and Subscriptions are reconciled with each other after NATS or the controller was unavailable;
//   - the status reports what is wrong;
//   - a consumer or a stream that a client deletes is created again as soon as NATS reports it, a stream with its
//     consumers before its first event;
//   - events of deleted consumers are removed from the stream.
package subscription
