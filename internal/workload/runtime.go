package workload

import (
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// IsNodeJS reports whether the runtime runs Node.js.
func IsNodeJS(runtime v1alpha2.Runtime) bool {
	return strings.HasPrefix(string(runtime), "nodejs")
}

// IsPython reports whether the runtime runs Python.
func IsPython(runtime v1alpha2.Runtime) bool {
	return strings.HasPrefix(string(runtime), "python")
}
