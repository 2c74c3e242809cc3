// Package git reads remote Git repositories: which commit a reference stands for, and the files of one
// commit. It is the only importer of go-git and needs no git command.
//
// Guarantees:
//   - List is one request and transfers references only, of which no more than a bound is held in memory.
//   - Fetch transfers one commit without its history and, where the server can do it, only the files of the
//     wanted directory. Objects go to disk, not to memory. What it writes lies within its directory, and no link
//     there leads out of it.
//   - Only http, https and ssh repositories are read. No connection goes to loopback, link-local, multicast,
//     unspecified or metadata addresses, whatever a name resolves to and wherever a redirect points: the URL is a
//     tenant's choice. A proxy of the installation is asked for no such address either; what a name means to the
//     proxy is the proxy's to guard.
//   - Everything ends with its context, also when a server says nothing.
//   - Errors are an *Error of one Kind, whose text says what to repair. Credentials are in no text.
package git
