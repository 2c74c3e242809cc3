// Package registryconfig finds the container registry that the images of a Function belong in.
//
// A Secret of the Function's namespace comes before one of the installation's, and that before the default of the
// installation. It guarantees that a Secret is read from the API server only when it has changed, that what is
// wrong with one is reported as an *InvalidError with the way to repair it, and that no message has credentials. A registry
// that a namespace names for itself is reached within a dialguard.Guard; the installation's own may be anywhere.
package registryconfig
