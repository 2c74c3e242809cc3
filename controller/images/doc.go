// Package images collects the garbage of the internal registry: images that no Function uses any more. The registry's proxy frees the
// space that they take.
//
// Guarantees:
//   - An image that a Function's status, a Deployment or a ReplicaSet names by its digest stays, and so does
//     the copy of every image that Functions are built on now, and whatever a build did not put there.
//   - An image goes only when it was found unused for the whole grace period, by one and the same process.
//   - An image of a Function goes only while no build of that Function runs, and when it is still unused then. No other build waits, and
//     that one for seconds at most.
//   - Namespaces take turns, so that nobody's garbage keeps another's from being collected. A collection is bounded in time.
//   - Memory is bounded, and shared by namespaces: what does not fit is looked at again once something was deleted.
//   - Only the registry that belongs to the installation is touched.
//
// Package registryconfig finds the container registry that the images of a Function belong in.
//
// A Secret of the Function's namespace comes before one of the installation's, and that before the default of the
// installation. It guarantees that a Secret is read from the API server only when it has changed, that what is
// wrong with one is reported as an *InvalidError with the way to repair it, and that no message has credentials. A registry
// that a namespace names for itself is reached within a dialguard.Guard; the installation's own may be anywhere.
package images
