// Package registry reads, lists and deletes images of a container registry.
//
// Guarantees:
//   - Every call has a timeout, for a list one per page, and reads a bounded part of the response.
//   - An error wraps one of ErrForbidden, ErrUnavailable, ErrUntrusted, ErrDenied and ErrFull. Its text is
//     fixed, with the status of the response: it contains no text, header or redirect of a registry, and no
//     password.
//   - The Guard of a registry applies to the registry and to every host that it refers to by redirects or as
//     the realm of its tokens.
//   - Credentials travel over plain HTTP only where the registry is marked as insecure.
package registry
