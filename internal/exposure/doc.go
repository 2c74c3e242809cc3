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
package exposure
