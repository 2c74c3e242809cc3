// Package release tests the installation of a release by users: it makes a release, pushes it to the cluster's own
// registry, installs Rouse only from there, with Helm from oci:// and without Helm from the release's single file, with
// images by digest, and runs the order chain. Build tag e2e; needs helm and the local cluster, whose registry
// ROUSE_REGISTRY names.
package release
