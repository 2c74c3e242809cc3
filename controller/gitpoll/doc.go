// Package gitpoll polls the Git repositories of Functions for the commit that each one's reference points to.
//
// It guarantees:
//   - A repository is polled once in an interval for each set of credentials, however many Functions and references
//     follow it, never by two requests at a time, and less often while it rejects them. A repository that does not respond is
//     retried with exponential backoff, after one second, two, four and so on, up to ten minutes; a slow one takes at
//     most a thirtieth of the time.
//   - Checks are bounded in number and in time. Namespaces share them: one takes at most as many as it leaves free, and
//     the waiting namespace whose checks have taken the least time goes first.
//   - At least a second passes between two checks of a repository, whatever requests them.
//   - Commit never blocks: it returns the last result. A Function is enqueued when its result changes.
//   - Repositories that no Function follows are dropped.
package gitpoll
