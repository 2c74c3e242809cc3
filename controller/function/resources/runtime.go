package resources

import (
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Image is the image that runs a Function, empty when its runtime has none.
func Image(fn *v1alpha2.Function, settings *Settings) string {
	if fn.Spec.RuntimeImageOverride != "" {
		return fn.Spec.RuntimeImageOverride
	}
	return settings.Images[string(fn.Spec.Runtime)]
}
