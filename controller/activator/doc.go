// Package activation lists activators among the endpoints of Functions that HTTP wakes: beside the EndpointSlices of
// Kubernetes it keeps some of its own for each of them, with the addresses of the gateways and the port at which they know
// the Function.
//
// An activator answers whether the Function is awake or asleep, so listing it too long is harmless and listing it too late
// is the only error. It is listed while no pod is ready, while the scaler announces that the Function is idle, and until
// pods have been ready for a while.
//
// It guarantees:
//   - A Function keeps its port for as long as HTTP may wake it, whatever others write into its slices, and no other
//     Function gets that port before it has rested. Of the ports a namespace holds no more than it leaves free.
//   - An activator is listed for a Function only after it has answered at that port for that very Function.
//   - A gateway that is not ready, or that does not answer, is in no slice. With no gateway there are slices without an
//     endpoint: a connection that is refused is better than one that hangs.
//   - A slice that claims to be of ours and is not what this controller wants is deleted.
//
// A reconciliation reads a scope, decides in pure functions ([memory.next], [gatewaysOf], [scope.keeps]) and then writes.
// Everything runs on the leader alone. Without a Service of the gateways no Function is woken by HTTP, and what is left of
// earlier slices is deleted once.
package activator
