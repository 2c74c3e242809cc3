// Package identity authenticates publishers and users of the admin API by their tokens, and authorizes the latter.
//
//	publisher's token -- TokenReview --> Account
//	user's token ------- TokenReview --> User
//	User + Right -- SubjectAccessReview --> allowed or not
//
// A Verifier authenticates publishers: it has a token reviewed once for one audience and caches the result by the token's
// hash. An Access authenticates and authorizes users of the admin API. The package owns the rights of that API: verbs on
// virtual resources of the group rouse.run, for which roles are written as for any other resource, though no API server
// serves them. In local mode, which has no Kubernetes, a token allows everything from this machine.
//
// Guarantees:
//   - A token that is not known to be valid is refused: while the API server does not answer, no new publisher or user is
//     admitted.
//   - An admitted publisher stays so for a minute without a review, and for ten while the API server does not answer.
//   - A granted right takes effect after five seconds at most, and a revoked one after thirty.
//   - Concurrent reviews, the reviews that a source or a user causes, tokens that wait for a review, and cached results, in
//     total and per namespace, are bounded. Forged tokens take neither the slots nor the cache of known publishers and users.
//   - Tokens are stored only as hashes, and are in no error and no log.
package identity
