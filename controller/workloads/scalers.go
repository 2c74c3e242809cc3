package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
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

// kedaDelay is the delay before KEDA is tried again while it is being installed or removed.
const kedaDelay = 2 * time.Second

// errNoKEDA means that the API server does not serve ScaledObjects.
var errNoKEDA = errors.New("the API server does not serve ScaledObjects yet, or no longer")

func autoscalerKind() schema.GroupVersionKind {
	return autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
}

// scalerKinds are the kinds of what scales for a Service: with KEDA, and without it.
func scalerKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{resources.ScaledObjectKind(), autoscalerKind()}
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
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err = r.live.Get(ctx, client.ObjectKeyFromObject(service), found)
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil, kube.Waiting(errNoKEDA, kedaDelay) // the CRD is just coming or going
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
	counted := asked.podPort == ""
	var written *unstructured.Unstructured
	if kind == resources.ScaledObjectKind() {
		written, err = r.applier.Apply(ctx, resources.WorkloadScaledObject(service, asked.target, scaling, asked.tuning, asked.triggers, counted), live)
	} else {
		written, err = r.applyAutoscaler(ctx, service, &asked, scaling, live)
		done.low = asked.target.Low
		done.but = shortcomings(service, asked)
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) { // such as KEDA's own admission
		return outcome{}, err, nil
	}
	done.changed = written != nil
	return done, nil, err
}

// applyAutoscaler applies an HPA, with one replica at least where the API server lets none go to zero.
func (r *Reconciler) applyAutoscaler(
	ctx context.Context, service *corev1.Service, asked *scale, scaling resources.Scaling, live metav1.Object,
) (*unstructured.Unstructured, error) {
	if asked.target.Low == 0 && r.zeroReplicas.Refused(time.Now()) {
		asked.target.Low = 1
	}
	desired, err := kube.ToUnstructured(resources.WorkloadAutoscaler(service, asked.target, scaling, asked.tuning, asked.podPort == ""))
	if err != nil {
		return nil, err
	}
	written, err := r.applier.Apply(ctx, desired, live)
	if !apierrors.IsInvalid(err) || asked.target.Low > 0 {
		return written, err
	}
	r.zeroReplicas.Refuse(time.Now())
	return r.applyAutoscaler(ctx, service, asked, scaling, live)
}

// shortcomings are what an HPA without KEDA does not do of what a Service asks for.
func shortcomings(service *corev1.Service, asked scale) string {
	text := ""
	if asked.target.Low > 0 && service.Annotations[v1alpha2.AnnotationMinReplicas] == "" {
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
			if _, err := r.remove(ctx, service, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// release deletes the scaler of a Service that scales nothing any more.
func (r *Reconciler) release(ctx context.Context, service *corev1.Service) error {
	for _, kind := range scalerKinds() {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		if kind == autoscalerKind() {
			if err := r.live.Get(ctx, client.ObjectKeyFromObject(service), hpa); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("get HorizontalPodAutoscaler %q: %w", service.Name, err)
			}
		}
		removed, err := r.remove(ctx, service, kind)
		switch {
		case err != nil:
			return err
		case removed && kind == autoscalerKind():
			if err := r.wake(ctx, service.Namespace, hpa.Spec.ScaleTargetRef); err != nil {
				return err
			}
			r.say(service, corev1.EventTypeNormal, reasonScalesNoMore, "HorizontalPodAutoscaler "+service.Name+" is deleted: the replicas stay, and one is set where there was none")
		case removed:
			r.say(service, corev1.EventTypeNormal, reasonScalesNoMore, "ScaledObject "+service.Name+" is deleted: KEDA sets the replicas that there were before it")
		}
	}
	r.forget(client.ObjectKeyFromObject(service))
	return nil
}

// remove deletes the Service's scaler of a kind, and reports whether there was one.
func (r *Reconciler) remove(ctx context.Context, service *corev1.Service, kind schema.GroupVersionKind) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err := r.live.Get(ctx, client.ObjectKeyFromObject(service), live)
	if err == nil && metav1.IsControlledBy(live, service) {
		err = r.client.Delete(ctx, live, client.Preconditions{UID: new(live.GetUID())})
		if err == nil {
			return true, nil
		}
	}
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return false, fmt.Errorf("delete %s %q: %w", kind.Kind, service.Name, err)
}

// wake sets a replica of a target that has none. KEDA does so by itself when its ScaledObject goes.
func (r *Reconciler) wake(ctx context.Context, namespace string, of autoscalingv2.CrossVersionObjectReference) error {
	target, replicas, _ := resources.NewScalable(of.Kind)
	err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: of.Name}, target)
	if err != nil || ptr.Deref(*replicas, 1) > 0 {
		return client.IgnoreNotFound(err)
	}
	one := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: of.Name, ResourceVersion: target.GetResourceVersion()}, Spec: autoscalingv1.ScaleSpec{Replicas: 1},
	}
	if err := r.client.SubResource("scale").Update(ctx, target, client.WithSubResourceBody(one)); err != nil {
		return fmt.Errorf("set a replica of %s %s: %w", of.Kind, of.Name, err)
	}
	return nil
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
