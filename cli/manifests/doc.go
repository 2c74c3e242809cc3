// Package manifests owns how commands that write manifests in another version read them: files, their documents, and lists of objects.
//
// It guarantees that
//   - a file is cut into documents byte for byte, with its comments;
//   - no more than MaxInput is read of each file.
package manifests
