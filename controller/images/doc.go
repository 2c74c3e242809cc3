// Package images collects the garbage of the internal registry: images that no Function uses any more, and
// the space that they take.
//
// Guarantees:
//   - An image that a Function's status, a Deployment or a ReplicaSet names by its digest stays, and so does
//     the copy of every image that Functions are built on now, and whatever a build did not put there.
//   - An image goes only when it was found unused for the whole grace period, by one and the same process.
//   - Nothing is deleted and no space is freed while a build runs: the one could be what it finds there, the
//     other could take the layers of its upload. A sweep that outlives its process is waited for.
//   - Only the registry that belongs to the installation is touched.
package images
