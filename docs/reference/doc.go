// Command reference writes the reference of the resources' fields from their CustomResourceDefinitions: one page for
// each kind, of the version in which objects are stored.
//
// The same CRDs always give the same pages. `make generate` runs it, and `make verify` fails when a page is stale.
package main
