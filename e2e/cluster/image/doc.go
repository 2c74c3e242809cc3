// Package image builds container images from files, without a container engine and without a registry, and loads them
// into containerd. Layers are cached; an image's tag is a hash of its content, so that a changed image has a new name
// and an unchanged one is loaded once.
package image
