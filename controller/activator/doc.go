// Package activator lists gateways among the endpoints of Functions, and of workloads that Services name, that HTTP wakes: in
// addition to the EndpointSlices of Kubernetes it maintains slices with the addresses of the gateways and the port that identifies
// the Function there.
//
// An activator responds whether the Function is awake or asleep, so listing it too long is harmless, and only listing it
// too late is an error. It is listed while no pod is ready, while the scaler announces that the Function is idle, and
// until pods have been ready for a while. A workload whose Service leaves no other way to its pods has it always.
//
// It guarantees:
//   - A Function keeps its port for as long as HTTP may wake it, regardless of foreign writes to its slices, and the port is
//     not reused for a while afterwards. A namespace holds at most as many ports as it leaves free.
//   - An activator is listed for a Function only after it has answered at that port for that very Function.
//   - A gateway that is not ready or does not respond is in no slice. Without gateways the slices have no
//     endpoint: a refused connection is better than one that hangs.
//   - An undesired slice with this controller's label is deleted.
//
// A reconciliation reads a scope, decides in pure functions ([memory.next], [gatewaysOf], [scope.keeps]) and then writes.
// Everything runs on the leader only. Without a Service for the gateways HTTP wakes no Function, and remaining slices are
// deleted once.
package activator
