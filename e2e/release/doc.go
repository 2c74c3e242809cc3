// Package release tests that people can install a release: it makes one, pushes it to the cluster's own registry, installs Rouse from
// there alone, with Helm by oci:// and without by the release's one file, images by their digests, and plays the order chain. Build tag e2e; needs helm and the local
// cluster, whose registry ROUSE_REGISTRY names.
package release
