// Package apirule says which APIRules make sense beyond the rules of their CRD, which paths a path of a rule stands for, and which rule
// answers a request.
//
// It guarantees:
//   - Validate finds everything that is wrong at once, each with the attribute it is about, in the paths and words that Kyma uses;
//   - what it needs to know of the cluster comes in as values, so that the same spec in the same surroundings gets the same answer;
//   - its work is bounded: an APIRule has at most MaxRules rules, and a path at most MaxPathLength characters;
//   - nothing of a token, a password in a URL or a request is in a text of it.
//
// It is pure. Versions before v2 are read by the package conversion below.
package apirule
