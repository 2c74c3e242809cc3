// Package conversionwebhook answers the API server's ConversionReviews of Functions, where v1alpha1 is served.
//
// It guarantees that
//   - an answer depends on the question alone: it reads nothing of the cluster, so that whoever can reach the port, which cannot know an
//     API server by its certificate, learns nothing;
//   - what is written as v1alpha1 is judged by all rules of v1alpha2, which the API server does not do;
//   - memory is bounded for all callers, by what bodies become and not only by their bytes, and one of them leaves the others as much as
//     it takes;
//   - a caller is worked for once at a time, object by object, so that a flood of one does not lock another out.
//
// Package storedversions looks at the CustomResourceDefinitions of the cluster when the controller starts: whether objects may be stored
// in a version that this release does not have, which it then would not read.
//
// It guarantees that a start is not held up by it: what is wrong is logged with what to do, and shown by a metric. The chart asks the
// same before an upgrade, and refuses it; it cannot where nobody asks a cluster while rendering, as with helm template.
//
// Package crdversions owns the rule by which a version leaves a CustomResourceDefinition: not while an object may be stored in it.
//
// It guarantees that what breaks the rule is named with what to do. It reads nothing: the caller has the definitions.
//
// Package gitrepository writes the repositories that Functions of v1alpha1 name into these Functions, where v1alpha1 is served: the
// conversion webhook does not know them.
//
// It guarantees that a Function has what its GitRepository says within moments of either being written, in whatever order, and keeps
// it when the GitRepository goes.
package conversion
