package kube

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// counting is a client that counts writes.
type counting struct {
	client.Client
	applies, patches int
}

func newCounting(t *testing.T) *counting {
	t.Helper()
	scheme, err := NewScheme()
	require.NoError(t, err)
	c := &counting{}
	c.Client = fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, inner client.WithWatch, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			c.applies++
			return inner.Apply(ctx, config, opts...)
		},
		Patch: func(ctx context.Context, inner client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			c.patches++
			return inner.Patch(ctx, object, patch, opts...)
		},
	}).Build()
	return c
}

func desiredService(t *testing.T, port int32) *unstructured.Unstructured {
	t.Helper()
	object, err := ToUnstructured(corev1ac.Service("price", "shop").
		WithLabels(map[string]string{"a": "b"}).
		WithSpec(corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().
			WithPort(port).WithProtocol(corev1.ProtocolTCP).WithTargetPort(intstr.FromInt32(8080)))))
	require.NoError(t, err)
	return object
}

func liveService(t *testing.T, c client.Client) *corev1.Service {
	t.Helper()
	service := &corev1.Service{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "price"}, service))
	return service
}

func TestApplyWritesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	applier := NewApplier(c)
	desired := desiredService(t, 80)
	apply := func(desired *unstructured.Unstructured) *unstructured.Unstructured {
		result, err := applier.Apply(t.Context(), desired, liveService(t, c), Exclusive{"spec"})
		require.NoError(t, err)
		return result
	}

	result, err := applier.Apply(t.Context(), desired, nil, Exclusive{"spec"})
	require.NoError(t, err)
	require.NotEmpty(t, result.GetResourceVersion())
	require.Nil(t, apply(desired), "the object is unchanged")
	require.Equal(t, 1, c.applies)

	require.NotNil(t, apply(desiredService(t, 81)), "something else is desired")
	require.NotNil(t, apply(desired))
	require.Equal(t, 3, c.applies)

	changed := liveService(t, c)
	changed.Labels = nil
	changed.Annotations = map[string]string{"by": "somebody"}
	require.NoError(t, c.Update(t.Context(), changed, client.FieldOwner("somebody")))
	require.NotNil(t, apply(desired), "fields of ours were removed")
	require.Equal(t, "b", liveService(t, c).Labels["a"])
	require.Equal(t, "somebody", liveService(t, c).Annotations["by"])
	require.Nil(t, apply(desired))
}

func TestApplyRemovesForeignFieldsFromAnExclusivePart(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	applier := NewApplier(c)
	desired := desiredService(t, 80)
	_, err := applier.Apply(t.Context(), desired, nil, Exclusive{"spec"})
	require.NoError(t, err)

	changed := liveService(t, c)
	changed.Spec.Ports = append(changed.Spec.Ports, corev1.ServicePort{Name: "added", Port: 99, Protocol: corev1.ProtocolTCP})
	changed.Annotations["by"] = "somebody"
	require.NoError(t, c.Update(t.Context(), changed, client.FieldOwner("somebody")))

	result, err := applier.Apply(t.Context(), desired, liveService(t, c))
	require.NoError(t, err)
	require.Nil(t, result, "without an exclusive part it stays")
	result, err = applier.Apply(t.Context(), desired, liveService(t, c), Exclusive{"spec"})
	require.NoError(t, err)
	require.NotNil(t, result)
	require.Len(t, liveService(t, c).Spec.Ports, 1)
	require.Equal(t, "somebody", liveService(t, c).Annotations["by"])
	result, err = applier.Apply(t.Context(), desired, liveService(t, c), Exclusive{"spec"})
	require.NoError(t, err)
	require.Nil(t, result)
}

func TestApplyForcesConflictsOnlyOnOwnedObjects(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	applier := NewApplier(c)
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price", Labels: map[string]string{"a": "theirs"}},
	}
	require.NoError(t, c.Create(t.Context(), foreign, client.FieldOwner("somebody")))
	_, err := applier.Apply(t.Context(), desiredService(t, 80), nil)
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.Equal(t, "theirs", liveService(t, c).Labels["a"])
}

func TestPatchStatus(t *testing.T) {
	t.Parallel()
	scheme, err := NewScheme()
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price"}}
	patches := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod).WithStatusSubresource(pod).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, inner client.Client, sub string, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			patches++
			return inner.SubResource(sub).Patch(ctx, object, patch, opts...)
		},
	}).Build()
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))

	require.NoError(t, PatchStatus(t.Context(), c, pod, pod.DeepCopy()))
	require.Zero(t, patches, "an unchanged status must cost no request")

	changed := pod.DeepCopy()
	changed.Status.Message = "new"
	require.NoError(t, PatchStatus(t.Context(), c, pod, changed))
	require.Equal(t, 1, patches)

	stale := pod.DeepCopy()
	stale.Status.Message = "stale"
	require.True(t, apierrors.IsConflict(PatchStatus(t.Context(), c, pod, stale)), "a stale object must be read again")

	require.NoError(t, c.Delete(t.Context(), changed))
	require.NoError(t, PatchStatus(t.Context(), c, pod, stale), "a deleted object needs no status")
}

func TestApplyKeepsToleratedFieldsOfAnExclusivePart(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	applier := NewApplier(c)
	desired := desiredService(t, 80)
	_, err := applier.Apply(t.Context(), desired, nil, Exclusive{"spec"})
	require.NoError(t, err)

	changed := liveService(t, c)
	changed.Spec.Ports = append(changed.Spec.Ports,
		corev1.ServicePort{Name: "tolerated", Port: 98, Protocol: corev1.ProtocolTCP},
		corev1.ServicePort{Name: "added", Port: 99, Protocol: corev1.ProtocolTCP})
	changed.Spec.ExternalIPs = []string{"192.0.2.1"}
	require.NoError(t, c.Update(t.Context(), changed, client.FieldOwner("somebody")))

	part := Exclusive{"spec"}.Tolerating(func(path fieldpath.Path) bool {
		return len(path) > 2 && path[2].Key != nil && strings.Contains(path[2].String(), "98")
	})
	result, err := applier.Apply(t.Context(), desired, liveService(t, c), part)
	require.NoError(t, err)
	require.NotNil(t, result)
	live := liveService(t, c)
	require.Len(t, live.Spec.Ports, 2)
	require.Equal(t, int32(98), live.Spec.Ports[1].Port)
	require.Empty(t, live.Spec.ExternalIPs)

	result, err = applier.Apply(t.Context(), desired, liveService(t, c), part)
	require.NoError(t, err)
	require.Nil(t, result, "tolerated fields must not cause a write")
	require.Equal(t, 1, c.patches)

	for _, each := range []*Applier{applier, NewApplier(c)} {
		each.Distrust("Service", client.ObjectKeyFromObject(desired))
		result, err = each.Apply(t.Context(), desired, liveService(t, c), part)
		require.NoError(t, err)
		require.NotNil(t, result, "a distrusted object is written once")
		result, err = each.Apply(t.Context(), desired, liveService(t, c), part)
		require.NoError(t, err)
		require.Nil(t, result)
	}
}

func TestNewProcessDoesNotRewriteWhatAnEarlierOneApplied(t *testing.T) {
	t.Parallel()
	c := newCounting(t)
	desired := desiredConfigMap(t, "a")
	applier := NewApplier(c)
	_, err := applier.Apply(t.Context(), desired, nil, Exclusive{"data"})
	require.NoError(t, err)
	require.NotContains(t, desired.GetAnnotations(), AnnotationApplied, "the desired object must not change")
	restart := func(desired *unstructured.Unstructured) bool {
		result, err := NewApplier(c).Apply(t.Context(), desired, liveConfigMap(t, c), Exclusive{"data"})
		require.NoError(t, err)
		return result != nil
	}
	require.False(t, restart(desired))
	applier.Forget(client.ObjectKeyFromObject(desired))
	result, err := applier.Apply(t.Context(), desired, liveConfigMap(t, c), Exclusive{"data"})
	require.NoError(t, err)
	require.Nil(t, result, "after Forget there must be no write either")
	require.True(t, restart(desiredConfigMap(t, "b")), "something else is desired")
	require.False(t, restart(desiredConfigMap(t, "b")))

	changed := liveConfigMap(t, c)
	changed.Labels = nil
	require.NoError(t, c.Update(t.Context(), changed, client.FieldOwner("somebody")))
	require.True(t, restart(desiredConfigMap(t, "b")), "a field of ours was removed")
	require.Equal(t, "b", liveConfigMap(t, c).Labels["a"])
	require.False(t, restart(desiredConfigMap(t, "b")))
}

// desiredConfigMap returns a ConfigMap without a status, which a fake client would add.
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

func TestCachesKeepOnlyTheMarkOfAnnotations(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{AnnotationApplied: "a"}, OnlyMark(map[string]string{AnnotationApplied: "a", "b": "c"}))
	require.Nil(t, OnlyMark(map[string]string{"b": "c"}))
	require.Nil(t, OnlyMark(nil))
}

// change sets a value at a path of a set. A nil value removes it together with emptied parents, since sets have no
// empty parents.
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

// The sets are as the API server writes them: keys of a list may be defaults, and atomic fields have no parts.
func TestOwnedFieldsMustEqualTheDesiredFields(t *testing.T) {
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
		path  []string // of the change in the set; empty: unchanged
		value any      // nil: removed
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
		"an additional label":       {path: []string{"f:metadata", "f:labels", "f:c"}, value: map[string]any{}},
		"an additional port":        {path: []string{"f:spec", "f:ports", `k:{"port":82}`}, value: map[string]any{"f:port": map[string]any{}}},
		"an additional field":       {path: []string{"f:spec", "f:ports", `k:{"port":81,"protocol":"TCP"}`, "f:name"}, value: map[string]any{}},
		"an additional part":        {path: []string{"f:status"}, value: map[string]any{}},
		"a value has parts":         {path: []string{"f:metadata", "f:labels", "f:a", "f:b"}, value: map[string]any{}},
		"a malformed set":           {path: []string{"f:metadata", "f:labels", "f:a"}, value: "a"},
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
			require.False(t, isIntact(live, marked, FieldOwner), "an object without the mark is never intact")
		})
	}
}
