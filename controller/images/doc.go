// Package images collects the garbage of the internal registry: images that no Function uses any more, and
// the space that they take.
//
// Guarantees:
//   - An image that a Function's status, a Deployment or a ReplicaSet names by its digest stays, and so does
//     the copy of every runtime's present image.
//   - An image goes only when it was found unused for the whole grace period, by one and the same process.
//   - Space is freed only while no build runs: an upload during that could lose its layers.
package images
