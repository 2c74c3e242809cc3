// Package sbom lists what is in the parts of a release, as SPDX 2.3 in JSON: the modules that a binary says it was built from, and what
// an image stands on.
package sbom
