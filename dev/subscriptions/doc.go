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
package subscriptions
