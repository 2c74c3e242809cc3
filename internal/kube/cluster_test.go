package kube

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestServiceAccountOfAcceptsOnlyTokensForTheAudience(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "default"}}
	require.NoError(t, env.Client.Create(t.Context(), account))
	token := func(audiences ...string) string {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
		require.NoError(t, env.Client.SubResource("token").Create(t.Context(), account, request))
		return request.Status.Token
	}
	reviews := ReviewsBy(env.Client)
	namespace, name, ok, err := reviews.ServiceAccountOf(t.Context(), token("rouse-eventbridge"), "rouse-eventbridge")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []string{account.Namespace, "default"}, []string{namespace, name})
	for title, other := range map[string]string{"for the API server": token(), "for another audience": token("vault"), "made up": "x"} {
		_, _, ok, err := reviews.ServiceAccountOf(t.Context(), other, "rouse-eventbridge")
		require.NoError(t, err, title)
		require.False(t, ok, title)
	}
}

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
	require.Equal(t, gone, kept, "other values must not change")
}

// kubectl apply writes the whole object into an annotation, including the source of a Function.
func TestCachesDropKubectlsLastAppliedConfiguration(t *testing.T) {
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

func TestConfigMapCacheKeepsOneKeyUpToItsBound(t *testing.T) {
	t.Parallel()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubectl": "all of it"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Data:       map[string]string{"a": strings.Repeat("x", 1<<20), "b": "more"},
		BinaryData: map[string][]byte{"c": {1}},
	}
	require.Equal(t, &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 11), "b": ""}}, onlyKey(object, "a", 10))
}
