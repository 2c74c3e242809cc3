// Package crdcompat owns the rule by which a release may change the CRDs of the one before: every object that was valid stays valid,
// means the same, and keeps all its fields, whichever of the two releases wrote it.
//
// It guarantees that what breaks the rule is named by version and field. It reads nothing: its test has the CRDs of the release before
// in testdata/before.
package crdcompat
