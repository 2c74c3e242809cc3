// Package image puts container images together from files, without a container engine and without a registry, and
// gives them to containerd. Layers are kept in the cache; an image's tag is a hash of all that is in it, so a changed
// image has a new name and an unchanged one is loaded once.
package image
