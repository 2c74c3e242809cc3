// Package architecture contains no code, only tests of the repository's architecture. They read the table in
// docs/architecture.md, which lists the allowed imports of each folder and the pure folders, and find code that names a
// language of Functions.
package architecture
