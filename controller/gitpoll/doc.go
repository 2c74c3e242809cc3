// Package gitpoll follows the Git repositories of Functions: which commit each one's reference stands for now.
//
// Guarantees:
//   - A repository is asked once in an interval for each set of credentials, however many Functions and
//     references are interested, never by two requests at a time, and less often while it refuses us. One that does not
//     answer is asked again after one second, two, four and so on, up to ten minutes; one that is slow costs a thirtieth of the time.
//   - Checks are bounded in number and in time. Namespaces share them: one takes no more than it leaves free, and of those that
//     wait the one comes first whose checks have taken the least time.
//   - Whatever asks for a check, a second lies between two of a repository.
//   - Commit never waits: the answer is what was found last. A Function is woken when its answer changes.
//   - Repositories that no Function is interested in are forgotten.
package gitpoll
