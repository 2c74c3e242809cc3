// Package registry reads, lists and deletes images of a container registry.
//
// Guarantees:
//   - Every call ends within a bounded time, which of a list is that of each page, and reads a bounded part of what is answered.
//   - An error has one of a few meanings (ErrForbidden, ErrUnavailable, ErrUntrusted, ErrDenied, ErrFull), and is in
//     words of our own with the status that was answered: no text, header or redirect of a registry is in it, and no
//     password.
//   - A registry with a Guard is dialled within its bounds, and so is every host that it leads to by redirects or as
//     the realm of its tokens.
//   - Credentials travel over plain HTTP only where the registry is marked as insecure.
package registry
