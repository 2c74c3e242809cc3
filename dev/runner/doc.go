// Package runner runs Functions as local processes: what Deployment, Service, EndpointSlice and kubelet are to a
// cluster.
//
// It owns the processes of every Function, their front ports and their endpoints, and guarantees that
//   - a changed Function starts beside the old one and takes over when it is ready; the old one leaves the endpoints
//     before it is asked to stop, and finishes what it has begun;
//   - a version that does not start leaves the one before serving, and Status has the reason, with the line in the file;
//   - a Function that crashes is started again, later each time; one that gives no answer for longer than a call may
//     take is ended and replaced;
//   - what Functions print names the user's files, and no copies of them;
//   - a Function keeps its front port, where a request waits for a replica and is forwarded as by a gateway of a cluster
//     (gateway/activator);
//   - nothing runs any more when Run returns.
//
// What to start and what to stop is decided by a pure function over a snapshot; one loop acts on it.
package runner
