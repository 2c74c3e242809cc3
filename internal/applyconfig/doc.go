// Package applyconfig makes client-go's apply configurations of Kubernetes' own types, for builders of what is applied server-side.
//
// It guarantees to be pure, and that what was not set stays not set.
package applyconfig
