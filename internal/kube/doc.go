// Package kube holds what the controllers share in their talk with the
// Kubernetes API: server-side apply under one field owner, the check that an
// object may be written at all, the single status patch, conditions, and the
// classes of errors.
//
// It guarantees that nothing is written that is already as it should be, and
// that an object of another owner is never taken over.
package kube
