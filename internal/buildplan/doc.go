// Package buildplan is the contract between the controller and the builder: the Plan of an image, the Result of
// building it, the files that carry both, and the Tag that names an image by its inputs.
//
// It guarantees that plans with the same base, source and dependencies have the same tag, which depends on nothing
// else, and above all not on credentials.
package buildplan
