package workload

import (
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// HasDependencies reports whether the dependencies make a difference. Those of no
// language make one, so that what reads them says what is wrong.
func HasDependencies(runtime v1alpha2.Runtime, dependencies string) bool {
	if strings.TrimSpace(dependencies) == "" {
		return false
	}
	language, err := languages.Of(runtime)
	return err != nil || language.Packages.Matters(dependencies)
}
