package deploy

import (
	"encoding/base64"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// encode writes the stringData of a Secret as data, as an API server does.
func encode(secret map[string]any) {
	texts, found, err := unstructured.NestedStringMap(secret, "stringData")
	if !found || err != nil {
		return // the API server reports what is wrong
	}
	data, _, err := unstructured.NestedMap(secret, "data")
	if err != nil {
		return
	}
	if data == nil {
		data = map[string]any{}
	}
	for key, text := range texts {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	secret["data"] = data
	delete(secret, "stringData")
}

// What stands for a value of a Secret.
const (
	masked       = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// mask replaces the values of two states of a Secret, so that it still shows which of them differ.
func mask(before, after map[string]any) {
	old, _, _ := unstructured.NestedMap(before, "data")
	next, _, _ := unstructured.NestedMap(after, "data")
	shownOld, shownNext := map[string]any{}, map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		shownOld[key] = masked
		if value, kept := next[key]; kept && value != old[key] {
			shownOld[key] = maskedBefore
		}
	}
	for key, value := range next {
		shownNext[key] = masked
		if earlier, had := old[key]; had && earlier != value {
			shownNext[key] = maskedAfter
		}
	}
	for _, state := range []struct{ secret, shown map[string]any }{{before, shownOld}, {after, shownNext}} {
		delete(state.secret, "stringData")
		if _, has := state.secret["data"]; has {
			state.secret["data"] = state.shown
		}
		// kubectl apply keeps the whole manifest there.
		unstructured.RemoveNestedField(state.secret, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	}
}
