package kube

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// A namespace may have thousands of Subscriptions and Services with 256 KiB of annotations each.
func TestCachesKeepNoAnnotations(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"kubernetes.io/service-name": "price"}
	kept, err := withoutAnnotations(&corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "price", Labels: labels, Annotations: map[string]string{"note": "long", v1alpha2.AnnotationDebugUntil: strings.Repeat("9", 100)}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}})
	require.NoError(t, err)
	require.Equal(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "price", Labels: labels}}, kept)

	const until = "2026-05-01T12:00:00Z"
	kept, err = withoutAnnotations(&corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{"note": "long", v1alpha2.AnnotationDebugUntil: until},
	}})
	require.NoError(t, err)
	require.Equal(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha2.AnnotationDebugUntil: until}}}, kept)

	gone := toolscache.DeletedFinalStateUnknown{Key: "shop/price"}
	kept, err = withoutAnnotations(gone)
	require.NoError(t, err)
	require.Equal(t, gone, kept, "what is no object is left alone")
}

// kubectl apply writes the whole object into an annotation, the source of a Function among it.
func TestCachesKeepNoCopyThatKubectlLeaves(t *testing.T) {
	t.Parallel()
	kept, err := WithoutManagedFields(&corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "price", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "long", "note": "kept"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}})
	require.NoError(t, err)
	require.Equal(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "price", Annotations: map[string]string{"note": "kept"}}}, kept)

	gone := toolscache.DeletedFinalStateUnknown{Key: "shop/price"}
	kept, err = WithoutManagedFields(gone)
	require.NoError(t, err)
	require.Equal(t, gone, kept)
}

func TestACacheOfAConfigMapKeepsOneKeyAndNoMoreThanItsBound(t *testing.T) {
	t.Parallel()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubectl": "all of it"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Data:       map[string]string{"a": strings.Repeat("x", 1<<20), "b": "more"},
		BinaryData: map[string][]byte{"c": {1}},
	}
	require.Equal(t, &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 11), "b": ""}}, onlyKey(object, "a", 10))
}
