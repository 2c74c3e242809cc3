package workloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

// recheck is the longest time after which a Service is looked at again: neither targets nor their autoscalers are watched. Problems
// are looked at more often while they are young.
const (
	recheck      = 5 * time.Minute
	firstRecheck = time.Second
)

// The reasons of Events.
const (
	reasonScales       = "Scales"
	reasonCannotScale  = "CannotScale"
	reasonScalesNoMore = "ScalesNoMore"
)

// Reconciler makes the ScaledObjects of Services.
type Reconciler struct {
	client   client.Client // reads the cache
	live     client.Reader
	applier  *kube.Applier
	recorder events.EventRecorder
	settings func() *resources.Settings

	mu   sync.Mutex
	said map[types.NamespacedName]notice
}

// notice is the last Event about a Service that scales something.
type notice struct {
	text  string
	since time.Time
}

// Reconcile implements reconcile.Reconciler for a Service.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	service := &corev1.Service{}
	err := r.client.Get(ctx, request.NamespacedName, service)
	if apierrors.IsNotFound(err) || err == nil && service.DeletionTimestamp != nil {
		r.forget(request.NamespacedName) // the ScaledObject goes with its owner
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("get Service %q: %w", request.NamespacedName, err)
	}
	if _, asked := service.Annotations[v1alpha2.AnnotationScaleTarget]; !asked {
		return reconcile.Result{}, r.leave(ctx, service)
	}
	scaling := r.settings().Scaling
	asked, problem := read(service, scaling)
	if problem != nil {
		r.say(service, corev1.EventTypeWarning, reasonCannotScale, problem.Error())
		return reconcile.Result{}, nil // until the Service changes
	}
	changed, problem, err := r.scale(ctx, service, asked, scaling)
	switch {
	case err != nil:
		return kube.Result(err)
	case problem != nil:
		age := r.say(service, corev1.EventTypeWarning, reasonCannotScale, problem.Error())
		return ctrl.Result{RequeueAfter: min(max(age, firstRecheck), recheck)}, nil
	}
	if changed || r.hasSaid(request.NamespacedName) { // a restart says nothing
		r.say(service, corev1.EventTypeNormal, reasonScales, fmt.Sprintf("ScaledObject %s keeps %d to %d replicas of %s %s by the %s of the Service",
			service.Name, asked.target.Low, asked.target.High, asked.target.Kind, asked.target.Name, counts(asked)))
	}
	return ctrl.Result{RequeueAfter: recheck}, nil
}

// leave takes the ScaledObject from a Service that names no target, and reports an annotation that needs one.
func (r *Reconciler) leave(ctx context.Context, service *corev1.Service) error {
	err := r.release(ctx, service)
	if err == nil && wakesNothing(service) {
		r.say(service, corev1.EventTypeWarning, reasonCannotScale, fmt.Sprintf("annotation %s needs %s: deployment/NAME or statefulset/NAME",
			v1alpha2.AnnotationHTTPWake, v1alpha2.AnnotationScaleTarget))
	}
	return err
}

// counts names what scales a target.
func counts(asked scale) string {
	if asked.tuning.HTTPWake {
		return "events and HTTP requests"
	}
	return "events"
}

// wakesNothing reports whether a Service asks that HTTP wakes a workload, and names none.
func wakesNothing(service *corev1.Service) bool {
	_, names := service.Annotations[v1alpha2.AnnotationScaleTarget]
	return !names && service.Annotations[v1alpha2.AnnotationHTTPWake] == v1alpha2.HTTPWakeEnabled
}

// scale writes the ScaledObject if it differs. The problem is one that only users can solve.
func (r *Reconciler) scale(ctx context.Context, service *corev1.Service, asked scale, scaling resources.Scaling) (changed bool, problem, err error) {
	live, problem, err := r.own(ctx, service, scaling)
	if problem != nil || err != nil {
		return false, problem, err
	}
	found, err := r.find(ctx, service.Namespace, asked.target)
	if err == nil && found != nil && live == nil { // KEDA and Kubernetes report others that come later
		found.scalers, err = r.autoscalersOf(ctx, service.Namespace, asked.target)
	}
	if err != nil {
		return false, nil, err
	}
	if problem := check(service, asked, found); problem != nil {
		return false, problem, nil
	}
	written, err := r.applier.Apply(ctx, resources.WorkloadScaledObject(service, asked.target, scaling, asked.tuning, asked.triggers, asked.podPort == ""), live)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) { // such as KEDA's own admission
		return false, err, nil
	}
	return written != nil, nil, err
}

// own returns the Service's ScaledObject, nil if there is none.
func (r *Reconciler) own(ctx context.Context, service *corev1.Service, scaling resources.Scaling) (live metav1.Object, problem, err error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(resources.ScaledObjectKind())
	err = r.live.Get(ctx, client.ObjectKeyFromObject(service), found)
	switch {
	case meta.IsNoMatchError(err) && scaling.ExternalMetrics:
		return nil, fmt.Errorf("KEDA is not installed: install it, or scale %s by a HorizontalPodAutoscaler of yours with the external metric %s; "+
			"until then replicas stay as they are", service.Annotations[v1alpha2.AnnotationScaleTarget], activation.ReplicasMetric), nil
	case meta.IsNoMatchError(err):
		return nil, errors.New("KEDA is not installed: install it; until then replicas stay as they are"), nil
	case apierrors.IsNotFound(err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("get ScaledObject %q: %w", service.Name, err)
	case !metav1.IsControlledBy(found, service):
		return nil, fmt.Errorf("there is a ScaledObject %s that is not the Service's: delete it, or remove annotation %s", service.Name, v1alpha2.AnnotationScaleTarget), nil
	}
	return found, nil, nil
}

// find returns the state of a target, nil if there is none.
func (r *Reconciler) find(ctx context.Context, namespace string, of resources.ScaleTarget) (*target, error) {
	object, _, template := resources.NewScalable(of.Kind)
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: of.Name}, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	found := &target{podLabels: template.Labels}
	for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		for _, port := range container.Ports {
			found.portNames = append(found.portNames, port.Name)
		}
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == resources.FunctionKind {
		found.function = owner.Name
	}
	return found, nil
}

// autoscalersOf lists the autoscalers of a target.
func (r *Reconciler) autoscalersOf(ctx context.Context, namespace string, of resources.ScaleTarget) ([]string, error) {
	hpas, scaled := &autoscalingv2.HorizontalPodAutoscalerList{}, &unstructured.UnstructuredList{}
	scaled.SetGroupVersionKind(resources.ScaledObjectKind())
	err := r.client.List(ctx, hpas, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err == nil {
		err = r.live.List(ctx, scaled, client.InNamespace(namespace))
	}
	if err != nil {
		return nil, fmt.Errorf("list autoscalers: %w", err)
	}
	var found []string
	for i := range hpas.Items {
		hpa := &hpas.Items[i]
		owner := metav1.GetControllerOf(hpa)
		ofKEDA := owner != nil && owner.Kind == resources.ScaledObjectKind().Kind
		if ref := hpa.Spec.ScaleTargetRef; ref.Kind == of.Kind && ref.Name == of.Name && !ofKEDA {
			found = append(found, "HorizontalPodAutoscaler "+hpa.Name)
		}
	}
	for i := range scaled.Items {
		name, _, _ := unstructured.NestedString(scaled.Items[i].Object, "spec", "scaleTargetRef", "name")
		kind, _, _ := unstructured.NestedString(scaled.Items[i].Object, "spec", "scaleTargetRef", "kind")
		if name == of.Name && cmp.Or(kind, "Deployment") == of.Kind {
			found = append(found, "ScaledObject "+scaled.Items[i].GetName())
		}
	}
	return found, nil
}

// release deletes the ScaledObject of a Service that scales nothing any more.
func (r *Reconciler) release(ctx context.Context, service *corev1.Service) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(resources.ScaledObjectKind())
	err := r.live.Get(ctx, client.ObjectKeyFromObject(service), live)
	if err == nil && metav1.IsControlledBy(live, service) {
		if err = r.client.Delete(ctx, live, client.Preconditions{UID: new(live.GetUID())}); err == nil {
			r.say(service, corev1.EventTypeNormal, reasonScalesNoMore, "ScaledObject "+service.Name+" is deleted: KEDA sets the replicas that there were before it")
		}
	}
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		r.forget(client.ObjectKeyFromObject(service))
		return nil
	}
	return fmt.Errorf("delete ScaledObject %q: %w", service.Name, err)
}

// say records an Event, unless it says what the last one said. It returns for how long that has been said.
func (r *Reconciler) say(service *corev1.Service, kind, reason, text string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(service)
	if last := r.said[key]; last.text == text {
		return time.Since(last.since)
	}
	r.said[key] = notice{text, time.Now()}
	r.recorder.Eventf(service, nil, kind, reason, "Scale", "%s", kube.Truncate(text, maxNote))
	return 0
}

func (r *Reconciler) hasSaid(service types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.said[service]
	return has
}

// maxNote is the longest note of an Event.
const maxNote = 1024

func (r *Reconciler) forget(service types.NamespacedName) {
	r.applier.Forget(service)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, service)
}
