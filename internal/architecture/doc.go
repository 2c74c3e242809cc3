// Package architecture holds no code, only the test that keeps the folder tree an architecture: who may
// import whom, as docs/architecture.md draws it.
package architecture
