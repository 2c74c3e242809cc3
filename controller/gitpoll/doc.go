// Package gitpoll follows the Git repositories of Functions: which commit each one's reference stands for now.
//
// Guarantees:
//   - A repository is asked once in an interval for each set of credentials, however many Functions and
//     references are interested, never by two requests at a time, and less often while it refuses us. One that does not
//     answer is asked again after one second, two, four and so on, up to ten minutes.
//   - Commit never waits: the answer is what was found last. A Function is woken when its answer changes.
//   - Repositories that no Function is interested in are forgotten.
package gitpoll
