package workload

import (
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// IsCompiled reports whether what runs is a binary, so that no source travels to a pod.
func IsCompiled(runtime v1alpha2.Runtime) bool {
	language, err := languages.Of(runtime)
	return err == nil && language.Compiled != nil
}
