package function

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
)

// withoutNotes keeps the annotations that are read: Helm's names the release to which an object belongs.
func withoutNotes(annotations map[string]string) {
	maps.DeleteFunc(annotations, func(name, _ string) bool {
		return !slices.Contains([]string{kube.AnnotationApplied, apirule.AnnotationFrom, "meta.helm.sh/release-name"}, name)
	})
}

// CacheObjects limits what the manager's cache holds: of Deployments and pods
// those with our label, and no parts that no reconciler reads. Setup relies
// on it; pass it to the manager as cache.Options.ByObject, with Transform as its
// DefaultTransform. ConfigMaps and Secrets must be read past the cache. A default
// transform must not drop managed fields: they show whether an object has to be
// applied. Of Services enough is kept for APIRules, too.
func CacheObjects() map[client.Object]cache.ByObject {
	ours := labels.SelectorFromSet(labels.Set{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy})
	return map[client.Object]cache.ByObject{
		&appsv1.Deployment{}:                     {Label: ours, Transform: withoutPodSpec},
		&corev1.Pod{}:                            {Label: ours, Transform: withoutPodSpec},
		&batchv1.Job{}:                           {Label: ours, Transform: withoutPodSpec},
		&corev1.Service{}:                        {Transform: withoutServiceDetails},
		&v1alpha2.Function{}:                     {Transform: withSharedTexts},
		&autoscalingv2.HorizontalPodAutoscaler{}: {Transform: withoutMeasures},
		crd():                                    {Field: fields.OneTermEqualSelector("metadata.name", scaledObjectCRD)},
		metadataOf(kindConfigMap):                {Transform: withoutContent},
		metadataOf(kindSecret):                   {Transform: withoutContent},
		metadataOf(kindNamespace):                {Transform: withoutContent},
	}
}

// Transform limits what the cache holds of ScaledObjects. Their kind cannot be in CacheObjects: a cache cannot be made while
// its definition is missing.
func Transform(object any) (any, error) {
	if scaledObject, ok := object.(*resources.LiveScaledObject); ok {
		withoutNotes(scaledObject.Annotations)
		kube.Share(scaledObject)
	}
	return object, nil
}

func withSharedTexts(object any) (any, error) {
	if fn, ok := object.(*v1alpha2.Function); ok {
		kube.ShareTexts(fn)
		for i := range fn.Status.Conditions {
			condition := &fn.Status.Conditions[i]
			kube.ShareText(&condition.Type)
			kube.ShareText(&condition.Status)
			kube.ShareText(&condition.Reason)
		}
	}
	return kube.WithoutManagedFields(object)
}

// withoutPodSpec drops what carries the source code, and of a Deployment what it selects, which its Function decides. Of a
// Deployment's pods it keeps what was bound to them.
func withoutPodSpec(object any) (any, error) {
	switch typed := object.(type) {
	case *appsv1.Deployment:
		typed.Spec.Selector = nil
		typed.Spec.Template = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: typed.Spec.Template.Annotations}, Spec: resources.Projected(&typed.Spec.Template),
		}
		kube.Share(typed)
	case *corev1.Pod:
		typed.Spec = corev1.PodSpec{}
		typed.ManagedFields = nil
	case *batchv1.Job:
		typed.Spec.Template = corev1.PodTemplateSpec{}
		typed.ManagedFields = nil
	}
	return object, nil
}

// withoutServiceDetails keeps where a Service leads, whose it is, and whose APIRules may lead to it.
func withoutServiceDetails(object any) (any, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	service.Status = corev1.ServiceStatus{}
	withoutNotes(service.Annotations)
	if service.Labels[v1alpha2.LabelManagedBy] == v1alpha2.ManagedBy {
		kube.Share(service)
		return service, nil
	}
	for i := range service.ManagedFields {
		service.ManagedFields[i].FieldsV1 = nil // who wrote it is told to users
	}
	return service, nil
}

// withoutMeasures keeps of other people's autoscalers what they scale.
func withoutMeasures(object any) (any, error) {
	hpa, ok := object.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return object, nil
	}
	hpa.Status = autoscalingv2.HorizontalPodAutoscalerStatus{}
	if hpa.Labels[v1alpha2.LabelManagedBy] == v1alpha2.ManagedBy {
		kube.Share(hpa)
		return hpa, nil
	}
	hpa.ManagedFields, hpa.Annotations, hpa.Spec.Metrics, hpa.Spec.Behavior = nil, nil, nil, nil
	return hpa, nil
}

// withoutContent drops what a cache of metadata has no use for. An annotation of
// kubectl holds the values of a Secret. The managed fields of our own Secrets
// show whether others have changed them.
func withoutContent(object any) (any, error) {
	typed, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	typed.SetAnnotations(kube.OnlyMark(typed.GetAnnotations()))
	if typed.GetLabels()[v1alpha2.LabelManagedBy] == v1alpha2.ManagedBy {
		kube.Share(typed)
	} else {
		typed.SetManagedFields(nil)
	}
	return object, nil
}
