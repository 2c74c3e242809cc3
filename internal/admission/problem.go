package admission

import (
	"errors"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// Problem is an error or warning about one field.
type Problem struct {
	// Field is the path of the field, such as "spec.env[0].name". The text may name the field differently, or not at
	// all.
	Field string
	// Text is the message for users.
	Text string
}

// Problems are all problems of an object, in the order of its fields.
type Problems []Problem

// String returns the texts of all problems, joined.
func (p Problems) String() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.Text
	}
	return strings.Join(texts, ". ")
}

// Err returns all problems as one error, or nil.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return errors.New(p.String())
}

func problemAt(path *field.Path, text string) Problem {
	return Problem{Field: path.String(), Text: text}
}

// checkMetadata checks the labels and annotations of the pods.
func checkMetadata(fn *v1alpha2.Function) Problems {
	spec := field.NewPath("spec")
	return append(
		checkMap(spec.Child("labels"), fn.Spec.Labels, metav1validation.ValidateLabels),
		checkMap(spec.Child("annotations"), fn.Spec.Annotations, apivalidation.ValidateAnnotations)...,
	)
}

// checkMap reports all invalid entries of a map in one text, at the first of them.
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
