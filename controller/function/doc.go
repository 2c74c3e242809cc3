// Package function reconciles Functions: each becomes a Deployment, a Service and, with a scaleConfig, a ScaledObject.
//
// Code that does not fit into the environment of a pod, or that needs packages, reaches the pods in an image: a Job
// builds it once and pushes it to a registry under a tag that identifies all of its inputs. Until the image exists, and
// whenever a build or a check of a Git repository fails, the Deployment stays unchanged. The inputs of a build and the
// time of the next attempt are stored in its Job, so a restart of the controller neither aborts a build nor retries one
// early.
//
// A reconciliation reads into a scope, runs its phases, and then computes the whole status from the scope in one pure
// function, also when a phase failed. Phases never write conditions. Objects of other owners are never written. No worker
// waits for a server that a tenant chose: registries are queried, and Git repositories polled, outside of the workers.
//
// An earlier version of the code may serve in place of the spec's, because the user requests it or because the spec's
// does not start. The status is always about the spec, and names the version that serves.
package function
