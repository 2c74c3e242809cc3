// Package activation is the contract between the controller, the gateways, the scaler and the runtimes for waking Functions by
// HTTP: how the activators of a Function are listed, how the load of a pod and of a gateway is reported, and how a wake went.
//
// It guarantees:
//   - SliceName, the labels and the port range are defined only here, and so is which Services HTTP wakes the workloads of;
//   - ListingOf accepts only what the controller may have written: a slice of ours with a Service, one port in the range and
//     well-formed addresses. It rejects everything else;
//   - counts in a decoded load are small enough to be added up: larger counts are errors.
//
// It is pure.
package activation
