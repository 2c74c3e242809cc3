// Command release makes all that people install of Rouse, without a container engine: images for several platforms as an OCI layout, the
// chart with their digests, archives of the command line, manifests, lists of what is in each, checksums and a statement of how they
// were made. It makes everything twice and fails when the two differ. With a registry it pushes; with a key it signs.
//
// plan.go names the parts and checks what could fail later; make.go takes the steps in their order, each with a file of its own:
// compile.go, images.go, runtimes.go upon bases.go, archive.go and install.go, chart.go, sbom.go and documents.go; publish.go is the last.
package main
