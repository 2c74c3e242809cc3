// Package install writes what people without Helm, or with only a laptop, install Rouse by: the CRDs as one file, manifests of package
// managers for the command line, and a script that checks what it fetches.
package install
