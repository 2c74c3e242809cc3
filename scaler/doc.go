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
// Where the trigger enables it, calls over HTTP are a second metric. Gateways, which
// hold the requests of Functions that sleep, report theirs on streams, so that the
// first one wakes as a publish does; pods are polled for theirs when KEDA polls. A
// Function with pods is active until no call came and its gateways were listed for
// a grace: then no one calls a pod that is gone. While it is idle that is announced,
// so that its gateways are listed.
//
//	first publish --> listener --+    +-- gateways <-- load streams
//	                             v    v
//	JetStream <-- poller --> function (one per Function that KEDA polls)
//	                             |  state in memory: activity, demand, routes, endpoints
//	KEDA  <-- unary answers -----+----- streams --> KEDA
//	               |
//	               +--> pods
//
// Each function has one goroutine that reads its backlog, one that follows its
// endpoints, two for its calls where HTTP counts, and any number of streams that
// wait for its state to change. The decisions (activity, httpload, pacer, metadata)
// are pure and start no goroutine.
//
// It guarantees:
//   - handlers answer from memory, except for requests to pods, which run concurrently and
//     take less than a second, and not at all when there are none. Nothing that NATS
//     or a pod does can hold one up, so that KEDA, which sets no deadline, is never
//     held up either;
//   - a backlog or a number of calls that is not known is an error and never 0, so
//     that KEDA holds the replicas. A durable consumer that does not exist yet is a
//     backlog of 0;
//   - a listener is in place before the backlog is read, so that no publish
//     falls between the two;
//   - a caller sees only the Subscriptions of the namespace that KEDA names;
//   - streams end with nil before the listener closes, because only that lets
//     KEDA come back after two seconds.
//
// It stores no state that outlives the process, and any replica can answer any
// call.
package scaler
