// Package identity says which ServiceAccount a publisher's token is of.
//
// The API server knows, by a TokenReview for one audience. A Verifier asks it once for each token and remembers the answer by
// the token's hash; tokens themselves are kept nowhere.
//
// Guarantees:
//   - A token that is not known to be good is refused: while the API server does not answer, no new publisher is admitted.
//   - A publisher that was admitted stays so for a minute without a review, and for ten while the API server does not answer.
//   - Reviews at a time, tokens that wait for one, answers and the answers about one namespace's tokens are bounded. Forged
//     tokens take neither the slots of reviews that keep known publishers admitted, nor their answers.
//
// Package authorization says who asks the admin API, and whether that user may do what is asked.
//
//	bearer token -- TokenReview --> User
//	User + Right -- SubjectAccessReview --> allowed or not
//
// It owns the rights that the API knows: verbs on virtual resources of the group rouse.run, for which roles are written as for any
// other resource, though no API server serves them. In local mode, which has no Kubernetes, a token allows all from this machine.
//
// Guarantees:
//   - What the API server did not allow within the last half minute is refused. While it does not answer, nothing new is allowed.
//   - A right that was granted counts five seconds later at most, one that was taken away thirty.
//   - Reviews at a time, how many a source or a user causes, how long each takes, and answers that are remembered are bounded. Tokens that were made up
//     take neither the slots nor the answers of users that are known.
//   - Tokens are kept as hashes alone, and are in no error and no log.
package identity
