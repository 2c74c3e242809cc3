package conversion

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// maxKept bounds what is kept in an annotation on the way up. The API server allows 256 KiB for all of an object.
const maxKept = 64 << 10

// oldFields is what a Function of v1alpha2 keeps of v1alpha1, group by group.
type oldFields struct {
	Runtime      *string       `json:"runtime,omitempty"`
	Scale        *oldScale     `json:"scale,omitempty"`
	Resources    *oldResources `json:"resources,omitempty"`
	Source       *oldSource    `json:"source,omitempty"`
	SecretMounts *string       `json:"secretMounts,omitempty"`
}

// newFields is what a Function of v1alpha1 keeps of v1alpha2, group by group.
type newFields struct {
	Runtime      *v1alpha2.Runtime `json:"runtime,omitempty"`
	Scale        *newScale         `json:"scale,omitempty"`
	Resources    *newResources     `json:"resources,omitempty"`
	Source       *newSource        `json:"source,omitempty"`
	SecretMounts *newSecretMounts  `json:"secretMounts,omitempty"`
	Only         *newOnly          `json:"only,omitempty"`
}

// carry writes a group of fields in the other version. What was kept of the other version is taken as long as it still stands for the
// same. What the written one alone would not give back has to be kept, and is returned.
func carry[A, B any](from A, kept *B, there func(A) B, back func(B) A) (written B, keep *A) {
	written = there(from)
	if kept != nil && same(back(*kept), from) {
		written = *kept
	}
	if !same(back(written), from) {
		keep = &from
	}
	return written, keep
}

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// take reads an annotation and removes it.
func take[T any](annotations map[string]string, key string) (T, error) {
	var kept T
	text, found := annotations[key]
	delete(annotations, key)
	if !found {
		return kept, nil
	}
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		var none T
		return none, fmt.Errorf("decode the annotation %s: %w", key, err)
	}
	return kept, nil
}

// put writes an annotation, unless there is nothing to keep.
func put[T any](annotations map[string]string, key string, keep T) (map[string]string, error) {
	var nothing T
	if same(keep, nothing) {
		return annotations, nil
	}
	text, err := json.Marshal(keep)
	if err != nil {
		return annotations, fmt.Errorf("encode the annotation %s: %w", key, err)
	}
	return set(annotations, key, string(text)), nil
}

func set(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// pull is the value of a key, which is removed.
func pull(values map[string]string, key string) *string {
	value, found := values[key]
	delete(values, key)
	if !found {
		return nil
	}
	return &value
}

func give(values map[string]string, key string, value *string) map[string]string {
	if value == nil {
		return values
	}
	return set(values, key, *value)
}

// Forget takes off a Function what only a way back to v1alpha1 would need.
func Forget(fn *v1alpha2.Function) {
	delete(fn.Annotations, v1alpha1.AnnotationOldFields)
	delete(fn.Annotations, v1alpha1.AnnotationGitRepository)
	if len(fn.Annotations) == 0 {
		fn.Annotations = nil
	}
}
