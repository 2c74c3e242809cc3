// Package crdcompat checks that a release changes the CRDs of the previous release compatibly: every valid object stays
// valid, has the same meaning, and keeps all its fields, whichever of the two releases wrote it.
//
// It guarantees that a violation is reported by version and field. It reads no files: its test has the CRDs of the
// previous release in testdata/before.
package crdcompat
