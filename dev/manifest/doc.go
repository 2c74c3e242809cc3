// Package manifest reads the folder of YAML files that local mode runs: what kubectl and the API server are to a
// cluster.
//
// It owns the path from files to checked objects, and guarantees that it reports of an object what a cluster would report,
// with the file and the line of the field: defaults, schema and rules are those of the CRDs, what lies beyond them is
// internal/admission's. An object with a problem is left out and the rest goes on.
package manifest
