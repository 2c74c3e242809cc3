// Command release makes all parts of a release from one commit: plan.go names them and checks what could fail later, make.go takes the
// steps in their order (compile.go, images.go and runtimes.go, archive.go and install.go, chart.go, then documents.go with sbom.go), and
// publish.go signs and pushes what was made. All is made twice and compared, so that everybody can make the same bytes.
package main
