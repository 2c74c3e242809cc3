// Package git reads remote Git repositories: which commit a reference stands for, and the files of one
// commit. It is the only importer of go-git and needs no git command.
//
// Guarantees:
//   - List is one request and transfers references only, of which no more than a bound is held in memory.
//   - Fetch transfers one commit without its history and, where the server can do it, only the files of the
//     wanted directory. Objects go to disk, not to memory. What it writes lies within its directory, and no link
//     there leads out of it.
//   - Only http, https and ssh repositories are read, within the bounds of a dialguard.Guard: the URL is a tenant's choice.
//   - Every operation ends with its context, also when a server does not respond.
//   - Errors are an *Error of one Kind, with the remedy in words of our own and of the repository's URL.
//     No message contains credentials, or text of a server: neither bodies, headers, redirects, names in certificates nor
//     complaints. The one exception are names of branches and tags, short and plain, near the one that was not found.
package git
