// Command release builds all artifacts that users install, without a container engine: images for several platforms as
// an OCI layout, the chart with their digests, archives of the command line, manifests, software bills of materials,
// checksums and provenance. It builds everything twice and fails when the results differ. With a registry it pushes;
// with a key it signs.
//
// plan.go names the parts and performs early checks; make.go runs the steps in order, each in a file of its own:
// compile.go, images.go, runtimes.go with bases.go, archive.go and install.go, chart.go, sbom.go and documents.go;
// publish.go is the last.
package main
