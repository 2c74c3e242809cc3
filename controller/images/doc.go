// Package images finds the registry that holds the images of a Function, and collects the garbage of the internal one.
//
// The Resolver prefers a Secret of the Function's namespace over one of the installation, and that over the installation's
// default. It guarantees that
//   - a Secret is read from the API server only when it has changed;
//   - an invalid Secret is reported as an *InvalidError with its remedy, and no message contains credentials;
//   - a registry that a namespace chooses is reached within a dialguard.Guard; the installation's own may be anywhere.
//
// The Collector deletes images that no Function uses any more; the registry's proxy frees their space. It guarantees that
//   - an image that a Function's status, a Deployment or a ReplicaSet refers to by digest stays, and so does the copy of
//     every image that Functions are built on now, and every image that no build pushed;
//   - an image is deleted only after the same process has found it unused for the whole grace period;
//   - an image of a Function is deleted only while no build of that Function runs, and if it is still unused then. Other
//     builds do not wait, and that Function's at most for seconds;
//   - namespaces take turns, so that one namespace's garbage does not delay another's. A collection is bounded in time;
//   - memory is bounded and shared by namespaces: images beyond the bound are examined after others were deleted;
//   - only the installation's own registry is changed.
package images
