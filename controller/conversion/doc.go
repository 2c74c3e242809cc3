// Package conversion supports Functions of older versions.
//
// Its webhook answers the API server's ConversionReviews of Functions where v1alpha1 is served. It guarantees that
//   - a response depends on the request alone: it reads nothing of the cluster, because anyone who reaches the port can
//     send a request, and the API server does not identify itself by a certificate;
//   - objects written as v1alpha1 are validated by all rules of v1alpha2, which the API server does not do;
//   - memory is bounded for all callers, including what bodies decode to, and a caller leaves the others as much as it
//     takes;
//   - a caller has one turn at a time, object by object, so that a flood of one does not lock out another.
//
// The GitRepository controller copies the repositories that Functions of v1alpha1 name into these Functions, because the
// webhook cannot read them. A Function follows its GitRepository, in whatever order the two are written, and keeps the
// copy when the GitRepository is deleted.
//
// The check of stored versions applies the rule that a version may leave a CustomResourceDefinition only when no object
// may be stored in it. It runs once on the leader and never delays a start: a violation is logged with its remedy and
// shown by a metric. The chart refuses such an upgrade before; it cannot when it is rendered without access to the
// cluster, as with helm template.
package conversion
