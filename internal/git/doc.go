// Package git reads remote Git repositories: it resolves references to commits, and fetches the files of one
// commit. It is the only importer of go-git and needs no git command.
//
// Guarantees:
//   - List is one request and transfers references only, of which no more than a bound is held in memory.
//   - Fetch transfers one commit without its history and, where the server can do it, only the files of the
//     requested directory. Objects are written to disk, not held in memory. Files stay within the target directory, and no link
//     there leads out of it.
//   - Only http, https and ssh repositories are read, within the bounds of a dialguard.Guard: the URL is a tenant's choice.
//   - Every operation ends with its context, also when a server does not respond.
//   - Errors are of type *Error with a Kind, and name the repository's URL and the remedy.
//     No message contains credentials, or text of a server: neither bodies, headers, redirects, names in certificates nor
//     error texts. The only exceptions are plain, short names of branches and tags similar to one that was not found.
package git
