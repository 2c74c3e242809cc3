// Package apirule validates APIRules beyond the rules of their CRD, decides which of them are served, and matches requests to their
// rules.
//
// The gateways serve what a [Decider] returns, and the controller reports it in the status. Both watch the same objects and call the
// same pure functions, so that no state has to be shared: a Fingerprint shows whether they agree.
//
// It guarantees:
//   - Validate finds all problems at once, each with the attribute that it is about, in the paths and words of Kyma;
//   - the state of the cluster is passed in as values, so that the same spec in the same cluster gets the same result;
//   - the work is bounded: an APIRule has at most MaxRules rules, and a path at most MaxPathLength characters;
//   - a host belongs to the oldest APIRule that claims it, even while that one is invalid; every later one is rejected with the name of
//     the first;
//   - a problem of an APIRule itself closes the whole APIRule, and a missing object that one of its rules refers to closes that
//     rule alone;
//   - a rule exposes Services of other namespaces only where the Service allows it, and does not reveal whether one exists that does
//     not;
//   - messages contain no token, no password of a URL and nothing of a request.
//
// It is pure: the state that a Decider holds only avoids validating again what did not change. Package conversion reads older
// versions.
package apirule
