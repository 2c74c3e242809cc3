package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

func autoscalerKind() schema.GroupVersionKind {
	return autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
}

// scalerKinds are the kinds of what scales for a Service: with KEDA, and without it.
func scalerKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{resources.ScaledObjectKind(), autoscalerKind()}
}

// metadataOf returns an empty object of a kind, to read its metadata into.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// outcome is what scales for a Service.
type outcome struct {
	kind    schema.GroupVersionKind
	changed bool
	low     int32
	but     string // what it does not do, for the Event
}

// kindOf returns the kind of what scales in this cluster.
func (r *Reconciler) kindOf(ctx context.Context, scaling resources.Scaling) (kind schema.GroupVersionKind, problem, err error) {
	keda, err := kube.KEDAInstalled(ctx, r.client)
	switch {
	case err != nil:
		return kind, nil, err
	case keda:
		return resources.ScaledObjectKind(), nil, nil
	case scaling.ExternalMetrics:
		return autoscalerKind(), nil, nil
	}
	return kind, errors.New("KEDA is not installed: install it, or install the chart with scaler.externalMetrics.enabled; until then replicas stay as they are"), nil
}

// own returns the Service's scaler, nil if there is none.
func (r *Reconciler) own(ctx context.Context, service *corev1.Service, kind schema.GroupVersionKind) (live metav1.Object, problem, err error) {
	found := metadataOf(kind)
	err = r.live.Get(ctx, client.ObjectKeyFromObject(service), found)
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil, kube.WaitingForKEDA() // the CRD is just coming or going
	case apierrors.IsNotFound(err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("get %s %q: %w", kind.Kind, service.Name, err)
	case !metav1.IsControlledBy(found, service):
		return nil, fmt.Errorf("there is a %s %s that is not the Service's: delete it, or remove annotation %s",
			kind.Kind, service.Name, v1alpha2.AnnotationScaleTarget), nil
	}
	return found, nil, nil
}

// apply writes the scaler.
func (r *Reconciler) apply(
	ctx context.Context, service *corev1.Service, asked scale, scaling resources.Scaling, kind schema.GroupVersionKind, live metav1.Object,
) (done outcome, problem, err error) {
	done = outcome{kind: kind, low: asked.target.Low}
	var written *unstructured.Unstructured
	counted := asked.podPort == ""
	if kind == resources.ScaledObjectKind() {
		written, err = r.applier.Apply(ctx, resources.WorkloadScaledObject(service, asked.target, scaling, asked.tuning, asked.triggers, counted), live)
	} else {
		done.low, err = r.zeroReplicas.Apply(asked.target.Low, time.Now(), func(low int32) error {
			target := asked.target
			target.Low = low
			desired, err := kube.ToUnstructured(resources.WorkloadAutoscaler(service, target, scaling, asked.tuning, counted))
			if err == nil {
				written, err = r.applier.Apply(ctx, desired, live)
			}
			return err
		})
		done.but = shortcomings(asked, done.low)
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) { // such as KEDA's own admission
		return outcome{}, err, nil
	}
	done.changed = written != nil
	return done, nil, err
}

// shortcomings are what an HPA without KEDA, which keeps at least low replicas, does not do of what a Service asks for.
func shortcomings(asked scale, low int32) string {
	text := ""
	if low > asked.target.Low {
		text += "; the API server lets no HorizontalPodAutoscaler scale to zero: install KEDA, or enable the feature gate HPAScaleToZero of Kubernetes"
	}
	if len(asked.triggers) > 0 {
		text += "; annotation " + v1alpha2.AnnotationTriggers + " needs KEDA"
	}
	return text
}

// retire deletes the Service's scaler of the other kind.
func (r *Reconciler) retire(ctx context.Context, service *corev1.Service, keep schema.GroupVersionKind) error {
	for _, kind := range scalerKinds() {
		if kind != keep {
			if _, err := r.remove(ctx, service, metadataOf(kind), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// release deletes the scaler of a Service that scales nothing any more.
func (r *Reconciler) release(ctx context.Context, service *corev1.Service) error {
	removed, err := r.remove(ctx, service, metadataOf(resources.ScaledObjectKind()), nil)
	if err != nil {
		return err
	}
	if removed {
		r.say(service, corev1.EventTypeNormal, reasonScalesNoMore, "ScaledObject "+service.Name+" is deleted: KEDA sets the replicas that there were before it")
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	removed, err = r.remove(ctx, service, hpa, func() error { return r.wake(ctx, service.Namespace, hpa.Spec.ScaleTargetRef) })
	if err != nil {
		return err
	}
	if removed {
		r.say(service, corev1.EventTypeNormal, reasonScalesNoMore, "HorizontalPodAutoscaler "+service.Name+" is deleted: the replicas stay, and one is set where there was none")
	}
	r.forget(client.ObjectKeyFromObject(service))
	return nil
}

// remove reads the Service's scaler into an empty object of its kind and deletes it, and reports whether there was one. before, if not
// nil, is called first: it is called again where the deletion fails.
func (r *Reconciler) remove(ctx context.Context, service *corev1.Service, live client.Object, before func() error) (bool, error) {
	err := r.live.Get(ctx, client.ObjectKeyFromObject(service), live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && !metav1.IsControlledBy(live, service) {
		return false, nil
	}
	if err == nil && before != nil {
		err = before()
	}
	if err == nil {
		err = r.client.Delete(ctx, live, client.Preconditions{UID: new(live.GetUID())})
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete what scales for Service %q: %w", service.Name, err)
	}
	return err == nil, nil
}

// wake sets a replica of a target that has none. KEDA does so by itself when its ScaledObject goes.
func (r *Reconciler) wake(ctx context.Context, namespace string, of autoscalingv2.CrossVersionObjectReference) error {
	target, replicas, _ := resources.NewScalable(of.Kind)
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: of.Name}, target)
	if err != nil || ptr.Deref(*replicas, 1) > 0 {
		return client.IgnoreNotFound(err)
	}
	return kube.SetReplicas(ctx, r.client, target, 1)
}

// autoscalersOf lists the autoscalers of a target that are not the Service's.
func (r *Reconciler) autoscalersOf(ctx context.Context, service *corev1.Service, of resources.ScaleTarget) ([]string, error) {
	hpas, scaled := &autoscalingv2.HorizontalPodAutoscalerList{}, &unstructured.UnstructuredList{}
	scaled.SetGroupVersionKind(resources.ScaledObjectKind())
	err := r.client.List(ctx, hpas, client.InNamespace(service.Namespace), client.UnsafeDisableDeepCopy)
	if err == nil {
		err = r.live.List(ctx, scaled, client.InNamespace(service.Namespace))
	}
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list autoscalers: %w", err)
	}
	var found []string
	for i := range hpas.Items {
		hpa := &hpas.Items[i]
		owner := metav1.GetControllerOf(hpa)
		ofKEDA := owner != nil && owner.Kind == resources.ScaledObjectKind().Kind
		if ref := hpa.Spec.ScaleTargetRef; scales(ref.Kind, ref.Name, of) && !ofKEDA && !metav1.IsControlledBy(hpa, service) {
			found = append(found, "HorizontalPodAutoscaler "+hpa.Name)
		}
	}
	for i := range scaled.Items {
		name, _, _ := unstructured.NestedString(scaled.Items[i].Object, "spec", "scaleTargetRef", "name")
		kind, _, _ := unstructured.NestedString(scaled.Items[i].Object, "spec", "scaleTargetRef", "kind")
		if scales(kind, name, of) && !metav1.IsControlledBy(&scaled.Items[i], service) {
			found = append(found, "ScaledObject "+scaled.Items[i].GetName())
		}
	}
	return found, nil
}

// scales reports whether a reference, a Deployment's where it names no kind, is to a target.
func scales(kind, name string, of resources.ScaleTarget) bool {
	return name == of.Name && cmp.Or(kind, "Deployment") == of.Kind
}
