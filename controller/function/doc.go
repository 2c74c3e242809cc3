// Package function reconciles Functions: each becomes a Deployment, a Service
// and, with a scaleConfig, a ScaledObject.
//
// A pass reads into a scope, runs its phases, and then computes the whole
// status from the scope in one pure function, also when a phase failed. Phases
// never touch conditions. Objects of somebody else are never written.
//
// An earlier version of the code may serve in place of the spec's, because the
// user asks for it or because the spec's does not start. The status is always
// about the spec, and names what serves.
package function
