// Package conversionwebhook answers the API server's ConversionReviews of Functions, where v1alpha1 is served.
//
// It guarantees that
//   - an answer depends on the question alone: it reads nothing of the cluster, so that whoever can reach the port, which cannot know an
//     API server by its certificate, learns nothing;
//   - what is written as v1alpha1 is judged by all rules of v1alpha2, which the API server does not do;
//   - memory is bounded for all callers, by what bodies become and not only by their bytes, and one of them leaves the others as much as
//     it takes;
//   - a caller is worked for once at a time, object by object, so that a flood of one does not lock another out.
package conversionwebhook
