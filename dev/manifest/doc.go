// Package manifest reads the folder of YAML files that local mode runs, in place of kubectl and the API server.
//
// It owns the path from files to validated objects, and guarantees that it reports the problems that a cluster would
// report, with the file and the line of the field. Defaults, schema and rules come from the CRDs, and further rules
// from internal/admission. An object with a problem is left out, the others are used.
package manifest
