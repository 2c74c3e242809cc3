// Package resources builds the objects that a Function owns. Every function here is pure: the same Function and settings
// give the same object, so the objects can be read in the golden files of testdata.
//
// It also owns the rule which additions of others to a Function's pods stay (docs/architecture/control-plane.md): a
// runtime of servicebinding.io writes volumes with the Secrets of services, their mounts, variables, and annotations by
// which it finds all of these again. Without such a runtime no addition stays.
package resources
