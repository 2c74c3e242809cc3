// Package storedversions looks at the CustomResourceDefinitions of the cluster when the controller starts: whether objects may be stored
// in a version that this release does not have, which it then would not read.
//
// It guarantees that a start is not held up by it: what is wrong is logged with what to do, and shown by a metric. The chart asks the
// same before an upgrade, and refuses it; it cannot where nobody asks a cluster while rendering, as with helm template.
package storedversions
