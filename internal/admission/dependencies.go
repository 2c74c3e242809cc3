package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// checkDependencies reads a manifest as far as its language does. The rest is the package manager's to read.
func checkDependencies(path *field.Path, fn *v1alpha2.Function) Problems {
	if fn.Spec.Source.Inline == nil {
		return nil
	}
	const prefix = "invalid source.inline.dependencies value: "
	known, err := languages.Of(fn.Spec.Runtime)
	if err != nil {
		return Problems{problemAt(path, prefix+"cannot find runtime: "+string(fn.Spec.Runtime))}
	}
	if known.Packages.Validate == nil {
		return nil
	}
	if problem := known.Packages.Validate(fn.Spec.Source.Inline.Dependencies); problem != "" {
		return Problems{problemAt(path, prefix+problem)}
	}
	return nil
}
