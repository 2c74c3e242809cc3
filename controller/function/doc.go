// Package function reconciles Functions: each becomes a Deployment, a Service
// and, with a scaleConfig, a ScaledObject.
//
// Code that does not fit the environment of a pod, or needs packages, gets there
// in an image: a Job builds it once and keeps it in a registry under a tag that
// names all that it is made of. Until the image is there, and whenever a build or
// a check of a Git repository fails, the Deployment stays as it is. What a build is
// of and when a failed one is tried again is read from its Job, so a restart ends
// nothing and hurries nothing.
//
// A reconciliation reads into a scope, runs its phases, and then computes the whole
// status from the scope in one pure function, also when a phase failed. Phases
// never touch conditions. Objects of other owners are never written.
//
// An earlier version of the code may serve in place of the spec's, because the
// user asks for it or because the spec's does not start. The status is always
// about the spec, and names what serves.
//
// Package asker asks servers that tenants have named, outside of the workers of controllers.
//
// Guarantees:
//   - Answer never waits. Without an answer the object is an event when there is one, and that answer is given to it once, however old it
//     has become until a worker comes.
//   - Equal questions are asked once, and one at a time.
//   - The questions that are asked at a time are bounded, and shared by the namespaces that have named the servers: one takes no more than
//     it leaves free, and of those that wait the one comes first whose servers took the least time so far.
//   - A question is bounded in time, and so many wait that memory is bounded. One too many is answered with an error at once.
package function
