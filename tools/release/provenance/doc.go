// Package provenance says how a release was made, as an in-toto statement of SLSA provenance 1.0: from which commit, by what, and the
// digests of what came out. It is only as good as its signature.
package provenance
