// Package chart packs the Helm chart of a release: with its version and the digests of its images, as a file and as an image of a
// registry, in the form that Helm reads.
package chart
