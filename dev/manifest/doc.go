// Package manifest reads the folder of YAML files that local mode runs: what kubectl and the API server are to a
// cluster.
//
// It owns the way from files to checked objects, and guarantees that it says of an object what a cluster would say,
// with the file and the line of the field: defaults, schema and rules are those of the CRDs, what lies beyond them is
// internal/admission's. An object with a problem is left out and the rest goes on.
package manifest
