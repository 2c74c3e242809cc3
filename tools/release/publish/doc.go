// Package publish pushes a release to a registry so that nothing is there by half: all content and all manifests first, by their
// digests, and the tags by which people find them last. It signs by cosign's libraries.
package publish
