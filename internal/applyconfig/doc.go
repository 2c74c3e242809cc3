// Package applyconfig makes client-go's apply configurations of Kubernetes' own types, for builders of objects that are
// applied server-side.
//
// It guarantees to be pure, and that unset fields stay unset.
package applyconfig
