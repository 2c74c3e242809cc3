// Package pack puts container images together from files, without a container engine and without a registry: layers that depend on
// nothing but their files, images of one platform, and indexes of several. The local cluster and releases make their images by it.
package pack
