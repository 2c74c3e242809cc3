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
//
// Package exposure decides which APIRules hold: at which host each answers, where its rules lead, and what is wrong with it.
//
// The gateways serve what it decides and the controller says it in the status. Both watch the same objects and ask the same pure
// function, so that nothing has to be stored between them: a Fingerprint shows whether they agree.
//
// It guarantees:
//   - a host belongs to the APIRule that was there first, even while something is wrong in that one; every later one is refused and
//     names it;
//   - what is wrong in an APIRule itself keeps it from answering at all, and what is missing around one of its rules closes that
//     rule alone;
//   - a rule leads to Services of other namespaces only where the Service says so, and nobody learns whether one is there that does
//     not.
//
// It is pure: what a Decider remembers only saves it from judging what did not change.
package apirule
