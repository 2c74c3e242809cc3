// Package buildplan is what the controller and the builder agree on: the Plan of an image, the Result of
// building it, the files through which both travel, and the Tag that names an image by what it is made of.
//
// It guarantees that a plan with the same base, source and dependencies has the same tag, and that nothing
// else, above all no credentials, has a part in it.
package buildplan
