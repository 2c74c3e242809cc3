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
package images
