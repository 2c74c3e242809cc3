// Package registry asks a container registry what it holds and deletes from it.
//
// It guarantees that every call ends within a bounded time, that an error says which of a few causes it has
// (ErrForbidden, ErrUnavailable, ErrUntrusted, ErrFull), that no error or log line has a password, and that
// credentials travel over plain HTTP only where the registry is marked as insecure.
package registry
