// Package convert owns `rouse convert`: manifests of Functions of v1alpha1 with their GitRepositories, written as v1alpha2.
//
// It guarantees that
//   - what it does not convert passes byte for byte, in its place and order;
//   - a Function that cannot be written, or that v1alpha2 or the controller would refuse, is left out as a whole and reported;
//   - each change of meaning is reported with its field and what to do;
//   - it reads no more than manifests.MaxInput, asks no cluster and writes no file.
//
// Package manifests owns how commands that write manifests in another version read them: files, their documents, and lists of objects.
//
// It guarantees that
//   - a file is cut into documents byte for byte, with its comments;
//   - no more than MaxInput is read of each file.
package convert
