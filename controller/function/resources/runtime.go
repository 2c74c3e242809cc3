package resources

import (
	"strings"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// FollowsKyma reports whether the image that runs a Function is one of Kyma's
// contract. What cannot be one of ours is: Kyma's manifests have no annotation.
func FollowsKyma(fn *v1alpha2.Function, settings *Settings) bool {
	if fn.Spec.RuntimeImageOverride == "" {
		return false
	}
	// Where Kyma has no such runtime, an image can only be one of ours.
	if known, err := languages.Of(fn.Spec.Runtime); err == nil && known.Kyma == nil {
		return false
	}
	if contract := fn.Annotations[v1alpha2.AnnotationRuntimeContract]; contract != "" {
		return contract == v1alpha2.RuntimeContractKyma
	}
	for _, image := range settings.Images {
		if repositoryOf(image) == repositoryOf(fn.Spec.RuntimeImageOverride) {
			return false
		}
	}
	return true
}

// repositoryOf is an image's reference without its tag and its digest.
func repositoryOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		image = image[:colon]
	}
	return image
}

// Image is the image that runs a Function, empty when its runtime has none.
func Image(fn *v1alpha2.Function, settings *Settings) string {
	if fn.Spec.RuntimeImageOverride != "" {
		return fn.Spec.RuntimeImageOverride
	}
	return settings.Images[string(fn.Spec.Runtime)]
}
