// Package architecture holds no code, only the tests that keep the folder tree an architecture. They read the table in
// docs/architecture.md: which folder may import which, and which folders are pure. And
// they find where a language of Functions is known by its name.
package architecture
