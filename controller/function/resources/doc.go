// Package resources builds the objects that a Function owns. Every function
// here is pure: the same Function and settings give the same object, so what
// will be applied can be read from the golden files in testdata.
//
// Package bindings knows what a runtime of servicebinding.io writes into the Deployment of a Function: volumes with the
// Secrets of services, where they are mounted, variables, and annotations by which it finds all that again.
//
// It owns the rule which additions of others to a Function's pods stay (docs/architecture/control-plane.md), and guarantees to be pure, and that
// without such a runtime none does.
package resources
