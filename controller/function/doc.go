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
package function
