// Package subscriptions is the Subscription controller's part in local mode: it gives each Subscription of the folder its
// durable consumer, and tells the eventbridge and the scaler of it.
//
//	folder --Apply--> wanted --sync--> streams, consumers --then--> routes --> eventbridge, scaler
//
// It owns the streams and the consumers, and decides nothing about deliveries. It guarantees:
//   - a route is told only once its consumer exists, so that the first event after it is kept;
//   - a Subscription that is gone from the folder takes its consumer and its waiting retries with it, after nobody
//     delivers it any more. Dead letters stay;
//   - one that is only wrong just now, or whose file cannot be read, keeps its consumer, its events and its route;
//   - what fails is said once and tried again;
//   - a stream or a consumer that somebody deletes is made again at once.
package subscriptions
