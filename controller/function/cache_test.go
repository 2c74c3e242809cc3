package function

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
)

func written(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
}

func TestCachesKeepWhatIsReadOfServices(t *testing.T) {
	t.Parallel()
	service := func(labels, annotations map[string]string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "price", Labels: labels, Annotations: annotations, ManagedFields: written("kubectl")},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
	}
	theirs := service(nil, map[string]string{"note": "long", apirule.AnnotationFrom: "web", "meta.helm.sh/release-name": "shop"})
	theirs.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	kept, err := withoutServiceDetails(theirs)
	require.NoError(t, err)
	want := service(nil, map[string]string{apirule.AnnotationFrom: "web", "meta.helm.sh/release-name": "shop"})
	want.ManagedFields[0].FieldsV1 = nil
	require.Equal(t, want, kept)

	labels := map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	kept, err = withoutServiceDetails(service(labels, map[string]string{"note": "long", kube.AnnotationApplied: "abc"}))
	require.NoError(t, err)
	require.Equal(t, service(labels, map[string]string{kube.AnnotationApplied: "abc"}), kept, "managed fields show whether it is as it was applied")
}

func TestCachesKeepTheMarkAndTheManagedFieldsOfWhatIsApplied(t *testing.T) {
	t.Parallel()
	ours := metav1.ObjectMeta{
		Name: "price", Labels: map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy},
		Annotations: map[string]string{kube.AnnotationApplied: "abc"}, ManagedFields: written("rouse-controller"),
	}
	secret := metadataOf(kindSecret)
	secret.ObjectMeta = *ours.DeepCopy()
	secret.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "secret"
	scaledObject := &resources.LiveScaledObject{ObjectMeta: *ours.DeepCopy()}
	deployment := &appsv1.Deployment{ObjectMeta: *ours.DeepCopy()}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "function"}}
	for object, transform := range map[metav1.Object]func(any) (any, error){
		secret: withoutContent, scaledObject: Transform, deployment: withoutPodSpec,
	} {
		_, err := transform(object)
		require.NoError(t, err)
		require.Equal(t, ours.Annotations, object.GetAnnotations(), "%T", object)
		require.Equal(t, ours.ManagedFields, object.GetManagedFields(), "%T", object)
	}
	require.Empty(t, deployment.Spec.Template.Spec.Containers)

	foreign := metadataOf(kindSecret)
	foreign.ManagedFields, foreign.Annotations = written("kubectl"), map[string]string{"a": "b"}
	_, err := withoutContent(foreign)
	require.NoError(t, err)
	require.Empty(t, foreign.ManagedFields)
	require.Empty(t, foreign.Annotations)
}
