// Package kube holds the controllers' common code for the Kubernetes API: server-side apply under one field owner, the
// check that an object may be written, the single status patch, conditions, and the classes of errors.
//
// It guarantees that an object that is up to date is not written, and that an object of another owner is never taken
// over.
package kube
