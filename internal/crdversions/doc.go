// Package crdversions owns the rule by which a version leaves a CustomResourceDefinition: not while an object may be stored in it.
//
// It guarantees that what breaks the rule is named with what to do. It reads nothing: the caller has the definitions.
package crdversions
