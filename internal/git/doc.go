// Package git reads remote Git repositories: which commit a reference stands for, and the files of one
// commit. It is the only importer of go-git and needs no git command.
//
// Guarantees:
//   - List is one request and transfers references only, of which no more than a bound is held in memory.
//   - Fetch transfers one commit without its history and, where the server can do it, only the files of the
//     wanted directory. Objects go to disk, not to memory. What it writes lies within its directory, and no link
//     there leads out of it.
//   - Only http, https and ssh repositories are read, within the bounds of a dialguard.Guard: the URL is a tenant's choice.
//   - Everything ends with its context, also when a server says nothing.
//   - Errors are an *Error of one Kind, whose text says what to repair in words of our own and of the repository's URL.
//     No text has credentials, or what a server said: neither bodies, headers, redirects, names in certificates nor
//     complaints. The one exception are names of branches and tags, short and plain, near the one that was not found.
package git
