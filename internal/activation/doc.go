// Package activation is what the controller, the gateways, the scaler and the runtimes agree on for waking Functions by
// HTTP: how the activators of a Function are listed, and how the load of a pod and of a gateway is reported.
//
// It guarantees:
//   - SliceName, the labels and the port range are the only places of their values;
//   - ListingOf accepts only what the controller may have written: a slice of ours with a Service, one port in the range and
//     well-formed addresses. Everything else is not a listing;
//   - what is read of a load never exceeds what can be added up: counts that are too large are errors.
//
// It is pure.
package activation
