// Package httpload counts the calls over HTTP of Functions and decides whether a Function may scale to zero.
//
// [Gateways] follows the endpoints of the gateways' Service and holds a stream to each gateway, on which it reports its requests as they
// come. [Pods] requests the number of running calls from the pods of a Function. [Demand] combines both; it is pure.
//
// It guarantees for the decision:
//   - each call counts once, whether a gateway, a pod or both report it. A forged header hides no more than what is counted elsewhere;
//   - a Function with pods may sleep only after it was idle, and its activators were listed, for the whole grace period: then every
//     node sends callers to an activator before the last pod is removed;
//   - a Function without pods may sleep as soon as no request waits for it.
//
// It guarantees for gateways:
//   - a request at a gateway is reported as soon as its line is read. No lock is held during reads and writes;
//   - while a Ready gateway has no stream, the load of a Function is not known, which is an error and never 0. A gateway that
//     is not Ready, terminates or is no longer listed counts as long as its stream lives;
//   - a stream without a report for three seconds is closed, however slowly bytes come;
//   - lines, Functions and gateways are bounded.
//
// A pod's response is untrusted: the pod belongs to a tenant, and a tenant who may write EndpointSlices chooses the port. It guarantees
// for pods:
//   - only IP addresses are requested, and no loopback, link-local or metadata address;
//   - each response takes at most half a second and one KiB, and redirects are not followed;
//   - a namespace has at most 64 requests in flight, so that stalled pods take little memory;
//   - a Ready pod without a valid load report is an error and never 0. So is one that is not Ready but accepts connections:
//     it may run calls. One that refuses connections has none;
//   - no error contains text of a response.
package httpload
