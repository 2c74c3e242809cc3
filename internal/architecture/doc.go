// Package architecture holds no code, only the tests that keep the folder tree an architecture. They read the table in
// docs/architecture.md: which folder may import which, and which folders are pure.
package architecture
