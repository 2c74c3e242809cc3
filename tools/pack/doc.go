// Package pack builds container images from files, without a container engine and without a registry: reproducible
// layers, images of one platform, and indexes of several. The local cluster and releases use it for their images.
package pack
