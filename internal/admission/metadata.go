package admission

import (
	"maps"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// checkMetadata checks what pods get.
func checkMetadata(fn *v1alpha2.Function) Problems {
	spec := field.NewPath("spec")
	return append(
		checkMap(spec.Child("labels"), fn.Spec.Labels, metav1validation.ValidateLabels),
		checkMap(spec.Child("annotations"), fn.Spec.Annotations, apivalidation.ValidateAnnotations)...,
	)
}

// checkMap says all that is wrong with a map in one text, at the first of its entries that is wrong.
func checkMap(path *field.Path, entries map[string]string, validate func(map[string]string, *field.Path) field.ErrorList) Problems {
	err := validate(entries, path).ToAggregate()
	if err == nil {
		return nil
	}
	at := path
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if len(validate(map[string]string{key: entries[key]}, path)) > 0 {
			at = path.Key(key)
			break
		}
	}
	return Problems{problemAt(at, err.Error())}
}
