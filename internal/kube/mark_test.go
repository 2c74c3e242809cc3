package kube

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAProcessWritesNothingThatTheOneBeforeItHasApplied(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	desired := desiredConfigMap(t, "a")
	applier := NewApplier(c)
	_, err := applier.Apply(t.Context(), desired, nil, Exclusive{"data"})
	require.NoError(t, err)
	require.NotContains(t, desired.GetAnnotations(), AnnotationApplied, "what is desired stays as it is")
	restart := func(desired *unstructured.Unstructured) bool {
		result, err := NewApplier(c).Apply(t.Context(), desired, liveConfigMap(t, c), Exclusive{"data"})
		require.NoError(t, err)
		return result != nil
	}
	require.False(t, restart(desired))
	applier.Forget(client.ObjectKeyFromObject(desired))
	result, err := applier.Apply(t.Context(), desired, liveConfigMap(t, c), Exclusive{"data"})
	require.NoError(t, err)
	require.Nil(t, result, "nor does the one that has forgotten it")
	require.True(t, restart(desiredConfigMap(t, "b")), "something else is desired")
	require.False(t, restart(desiredConfigMap(t, "b")))

	changed := liveConfigMap(t, c)
	changed.Labels = nil
	require.NoError(t, c.Update(t.Context(), changed, client.FieldOwner("somebody")))
	require.True(t, restart(desiredConfigMap(t, "b")), "a field of ours was removed")
	require.Equal(t, "b", liveConfigMap(t, c).Labels["a"])
	require.False(t, restart(desiredConfigMap(t, "b")))
}

// desiredConfigMap has no status, which a fake client would add to what is applied.
func desiredConfigMap(t *testing.T, value string) *unstructured.Unstructured {
	t.Helper()
	object, err := ToUnstructured(corev1ac.ConfigMap("price", "shop").
		WithLabels(map[string]string{"a": "b"}).WithData(map[string]string{"key": value}))
	require.NoError(t, err)
	return object
}

func liveConfigMap(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, object))
	return object
}

func TestTheMarkIsAllThatCachesKeepOfAnnotations(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{AnnotationApplied: "a"}, OnlyMark(map[string]string{AnnotationApplied: "a", "b": "c"}))
	require.Nil(t, OnlyMark(map[string]string{"b": "c"}))
	require.Nil(t, OnlyMark(nil))
}

// change puts a value at a path of a set. Without one it takes away what is there, and parents that have lost all: no set has them.
func change(set map[string]any, path []string, value any) {
	if len(path) == 0 {
		return
	}
	child, _ := set[path[0]].(map[string]any)
	switch {
	case len(path) > 1:
		if change(child, path[1:], value); len(child) == 0 {
			delete(set, path[0])
		}
	case value == nil:
		delete(set, path[0])
	default:
		set[path[0]] = value
	}
}

// The sets are as the API server writes them: keys of a list may be defaults, and what is owned as a whole has no parts.
func TestOwnedFieldsHaveToBeThoseThatAreDesired(t *testing.T) {
	t.Parallel()
	const desired = `{
		"metadata": {"name": "price", "namespace": "shop", "uid": "u", "labels": {"a": "b"}, "ownerReferences": [{"uid": "f", "kind": "Function"}],
			"finalizers": ["x"]},
		"spec": {"selector": {"a": "b"}, "empty": {}, "ports": [{"port": 80, "name": "http"}, {"port": 81}]},
		"apiVersion": "v1", "kind": "Service"}`
	const owned = `{
		"f:metadata": {"f:labels": {"f:a": {}}, "f:ownerReferences": {"k:{\"uid\":\"f\"}": {}}, "f:finalizers": {"v:\"x\"": {}}},
		"f:spec": {"f:selector": {}, "f:empty": {}, "f:ports": {
			"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}},
			"k:{\"port\":81,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}`
	tests := map[string]struct {
		path  []string // of what is changed in the set; empty: nothing
		value any      // nil: it is gone
		want  bool
	}{
		"all of it":                 {want: true},
		"a label is lost":           {path: []string{"f:metadata", "f:labels", "f:a"}},
		"all labels are lost":       {path: []string{"f:metadata", "f:labels"}},
		"the metadata are lost":     {path: []string{"f:metadata"}},
		"the owner is another":      {path: []string{"f:metadata", "f:ownerReferences", `k:{"uid":"f"}`}},
		"the finalizer is lost":     {path: []string{"f:metadata", "f:finalizers", `v:"x"`}},
		"a port is lost":            {path: []string{"f:spec", "f:ports", `k:{"port":81,"protocol":"TCP"}`}},
		"a field of a port is lost": {path: []string{"f:spec", "f:ports", `k:{"port":80,"protocol":"TCP"}`, "f:name"}},
		"a label is too many":       {path: []string{"f:metadata", "f:labels", "f:c"}, value: map[string]any{}},
		"a port is too many":        {path: []string{"f:spec", "f:ports", `k:{"port":82}`}, value: map[string]any{"f:port": map[string]any{}}},
		"a field is too many":       {path: []string{"f:spec", "f:ports", `k:{"port":81,"protocol":"TCP"}`, "f:name"}, value: map[string]any{}},
		"a part is too many":        {path: []string{"f:status"}, value: map[string]any{}},
		"a value has parts":         {path: []string{"f:metadata", "f:labels", "f:a", "f:b"}, value: map[string]any{}},
		"a set is no set":           {path: []string{"f:metadata", "f:labels", "f:a"}, value: "a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{}
			require.NoError(t, object.UnmarshalJSON([]byte(desired)))
			marked, _, err := mark(object)
			require.NoError(t, err)
			set := map[string]any{}
			require.NoError(t, json.Unmarshal([]byte(owned), &set))
			change(set, tc.path, tc.value)
			if metadata, ok := set["f:metadata"].(map[string]any); ok {
				metadata["f:annotations"] = map[string]any{"f:" + AnnotationApplied: map[string]any{}}
			}
			raw, err := json.Marshal(set)
			require.NoError(t, err)
			live := &metav1.PartialObjectMetadata{}
			live.SetAnnotations(marked.GetAnnotations())
			live.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: string(FieldOwner), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(string(raw)),
			}})
			require.Equal(t, tc.want, isIntact(live, marked, FieldOwner))

			live.SetAnnotations(nil)
			require.False(t, isIntact(live, marked, FieldOwner), "without the mark it never is")
		})
	}
}
