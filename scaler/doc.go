// Package scaler reports to KEDA how much work waits for each Function, and wakes
// Functions that sleep at zero.
//
// It serves KEDA's external-scaler contract over gRPC. The value of a Function
// is its backlog: pending plus ack pending, summed over the durable consumers
// of its Subscriptions, and while it is awake also the detached calls, which have
// left their consumers but still run in it. Paused Subscriptions count nothing, because no pod would get their
// events. KEDA learns it in two ways: it polls, which is the safety net, and it
// holds a stream, on which the scaler pushes true as soon as something is
// published for a sleeping Function.
//
//	first publish --> listener --+
//	                             v
//	JetStream <-- poller --> function (one per Function that KEDA asks about)
//	                             |  state in memory: activity, routes, endpoint
//	KEDA  <-- unary answers -----+----- streams --> KEDA
//
// Each function has one goroutine that reads its backlog, one that follows its
// endpoints, and any number of streams that wait for its state to change. The
// decisions (activity, pacer, metadata) are pure and know no goroutine.
//
// It guarantees:
//   - handlers answer from memory. Nothing that NATS does can hold one up, so
//     that KEDA, which sets no deadline, is never held up either;
//   - a backlog that is not known is an error and never 0, so that KEDA holds
//     the replicas. A durable consumer that does not exist yet is a backlog of 0;
//   - a listener is in place before the backlog is read, so that no publish
//     falls between the two;
//   - a caller sees only the Subscriptions of the namespace that KEDA names;
//   - streams end with nil before the listener closes, because only that lets
//     KEDA come back after two seconds.
//
// It keeps no state that outlives the process, and any replica can answer any
// call.
package scaler
