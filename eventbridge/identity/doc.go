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
package identity
