// Package resources builds the objects that a Function owns. Every function
// here is pure: the same Function and settings give the same object, so what
// will be applied can be read from the golden files in testdata.
package resources
