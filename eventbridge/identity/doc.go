// Package identity says which ServiceAccount a publisher's token is of.
//
// The API server knows, by a TokenReview for one audience. A Verifier asks it once for each token and remembers the answer by
// the token's hash; tokens themselves are kept nowhere.
//
// Guarantees:
//   - What is not known to be good is refused: an API server that does not answer lets nobody new in.
//   - Who was let in stays so for a minute without a question, and for ten while the API server does not answer.
//   - Reviews at a time, tokens that wait for one, answers and the answers about one namespace's tokens are bounded. Tokens that
//     were made up take neither the places of reviews that keep known publishers in, nor their answers.
package identity
