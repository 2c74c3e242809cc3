// Package runner runs Functions as local processes, in place of Deployment, Service, EndpointSlice and kubelet in a
// cluster.
//
// It owns the processes of every Function, their front ports and their endpoints, and guarantees that
//   - a changed Function starts beside the old one and takes over when it is ready; the old one leaves the endpoints
//     before it is terminated, and completes its requests;
//   - a changed version is loaded once at once, also while the Function sleeps;
//   - a version that does not start leaves the one before serving; Status and a header of its responses have the reason,
//     with the line in the file;
//   - a Function that crashes is started again, later each time; one that gives no answer for longer than a call may
//     take is ended and replaced;
//   - the output of Functions refers to the user's files rather than copies;
//   - a Function keeps its front port, where a request waits for a replica and is forwarded as by a gateway of a cluster
//     (gateway/activator);
//   - no process runs when Run returns.
//
// A pure function over a snapshot decides which replicas to start and stop; one loop acts on it.
package runner
