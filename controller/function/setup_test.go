package function

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/kube"
)

func written(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
}

func TestTheCacheReducesServices(t *testing.T) {
	t.Parallel()
	service := func(labels, annotations map[string]string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "price", Labels: labels, Annotations: annotations, ManagedFields: written("kubectl")},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
	}
	theirs := service(nil, map[string]string{
		"note": "long", apirule.AnnotationFrom: "web", "meta.helm.sh/release-name": "shop",
		"rouse.run/other": "long", "rouse.run/scale-target": "deployment/worker", "rouse.run/max-replicas": strings.Repeat("9", 1000),
	})
	theirs.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	kept, err := withoutServiceDetails(theirs)
	require.NoError(t, err)
	want := service(nil, map[string]string{
		apirule.AnnotationFrom: "web", "meta.helm.sh/release-name": "shop",
		"rouse.run/scale-target": "deployment/worker", "rouse.run/max-replicas": strings.Repeat("9", 300),
	})
	want.ManagedFields[0].FieldsV1 = nil
	require.Equal(t, want, kept)

	labels := map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	kept, err = withoutServiceDetails(service(labels, map[string]string{"note": "long", kube.AnnotationApplied: "abc"}))
	require.NoError(t, err)
	require.Equal(t, service(labels, map[string]string{kube.AnnotationApplied: "abc"}), kept, "managed fields show whether it is as it was applied")
}

func TestCachesKeepTheMarkAndTheManagedFieldsOfAppliedObjects(t *testing.T) {
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

// listing counts the objects that lists return.
type listing struct {
	client.Client
	items int
}

func (l *listing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Client.List(ctx, list, options...)
	l.items += meta.LenList(list)
	return err
}

// neighbours are Functions in the same namespace, each with all that a Function may have.
func neighbours(count int) []client.Object {
	var objects []client.Object
	for i := range count {
		fn := newFunction(scaled(0, 3), func(fn *v1alpha2.Function) {
			fn.Name, fn.UID = fmt.Sprintf("neighbour-%d", i), types.UID(fmt.Sprintf("uid-of-neighbour-%d", i))
			fn.Spec.SecretMounts = []v1alpha2.SecretMount{{SecretName: fn.Name, MountPath: "/secret"}}
		})
		labelled := func(name string, labels map[string]string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: fn.Namespace, Name: name, Labels: labels}
		}
		objects = append(objects, fn,
			&corev1.Pod{ObjectMeta: labelled(fn.Name, resources.SelectorLabels(fn))},
			&batchv1.Job{ObjectMeta: labelled(fn.Name, resources.JobLabels(fn))},
			&corev1.Secret{ObjectMeta: labelled(fn.Name, resources.JobLabels(fn))},
			&autoscalingv2.HorizontalPodAutoscaler{
				ObjectMeta: labelled(fn.Name, nil),
				Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: fn.Name}},
			})
	}
	return objects
}

func TestReconciliationReadsAreIndexed(t *testing.T) {
	t.Parallel()
	own := newFunction(scaled(0, 3))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: "own", Labels: resources.SelectorLabels(own)}}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: "own", Labels: resources.JobLabels(own)}}
	foreign := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: own.Namespace, Name: "own"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: own.Name}},
	}
	read := func(others int) int {
		present := []client.Object{own.DeepCopy(), pod.DeepCopy(), job.DeepCopy(), foreign.DeepCopy()}
		b := newBench(t, true, append(present, neighbours(others)...)...)
		counted := &listing{Client: b.client}
		b.client = counted
		_, err := b.reconcile()
		require.NoError(t, err)
		return counted.items
	}
	require.Equal(t, 3, read(0), "its pod, its Job and the autoscaler of somebody")
	require.Equal(t, 3, read(20))
}

func TestASecretEnqueuesOnlyItsFunctionsByIndex(t *testing.T) {
	t.Parallel()
	b := newBench(t, true, neighbours(20)...)
	counted := &listing{Client: b.client}
	concerned := func(secret string, all, namespace bool) []reconcile.Request {
		counted.items = 0
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		watch := builders(counted, func(client.ObjectKey) (bool, bool) { return all, namespace })
		object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: secret}}
		watch.Create(t.Context(), event.CreateEvent{Object: object}, queue)
		var found []reconcile.Request
		for queue.Len() > 0 {
			request, _ := queue.Get()
			found = append(found, request)
			queue.Done(request)
		}
		return found
	}
	require.Empty(t, concerned("of-nobody", false, false))
	require.Zero(t, counted.items)
	require.Equal(t, []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "neighbour-7"}}}, concerned("neighbour-7", false, false))
	require.Equal(t, 1, counted.items)
	require.Len(t, concerned(v1alpha2.PackageRegistrySecret, false, false), 20, "each build may use it")
	require.Len(t, concerned("registry", false, true), 20)
	require.Len(t, concerned("registry", true, false), 20)
}

func TestOfANamespaceOnlyItsStandInsAreCached(t *testing.T) {
	t.Parallel()
	namespace := metadataOf(kindNamespace)
	namespace.SetAnnotations(map[string]string{v1alpha2.AnnotationStandIns: "nodejs22=1", "kubectl.kubernetes.io/last-applied-configuration": "long"})
	kept, err := onlyStandIns(namespace)
	require.NoError(t, err)
	require.Equal(t, map[string]string{v1alpha2.AnnotationStandIns: "nodejs22=1"}, kept.(client.Object).GetAnnotations())
	namespace.SetAnnotations(map[string]string{"other": "x"})
	kept, err = onlyStandIns(namespace)
	require.NoError(t, err)
	require.Empty(t, kept.(client.Object).GetAnnotations())
}
