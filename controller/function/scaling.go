package function

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/workload"
)

// conflictText is the API server's message for a write conflict.
const conflictText = "the object has been modified"

// keda gives a reconciliation access to KEDA.
type keda struct {
	// installed reports whether the cluster serves ScaledObjects.
	installed func(context.Context) (bool, error)
	// scaledObject reads one.
	scaledObject func(context.Context, client.ObjectKey) (*resources.LiveScaledObject, error)
}

// liveScaledObjects reads ScaledObjects from a cache.
func liveScaledObjects(reader client.Reader) func(context.Context, client.ObjectKey) (*resources.LiveScaledObject, error) {
	return func(ctx context.Context, key client.ObjectKey) (*resources.LiveScaledObject, error) {
		object := &resources.LiveScaledObject{}
		err := reader.Get(ctx, key, object)
		return object, err
	}
}

func scaledObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(resources.ScaledObjectKind())
	return object
}

// kedaWatch watches ScaledObjects while the cluster serves them. A watch that starts earlier would terminate the
// process.
type kedaWatch struct {
	client     client.Client
	cache      cache.Cache
	controller controller.Controller

	mu      sync.Mutex
	running bool
}

// installed looks up the CRD, and starts or ends the watch accordingly.
func (w *kedaWatch) installed(ctx context.Context) (bool, error) {
	installed, err := kube.KEDAInstalled(ctx, w.client)
	if err != nil {
		return false, err
	}
	return installed, w.follow(ctx, installed)
}

func (w *kedaWatch) follow(ctx context.Context, installed bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case installed && !w.running:
		err := w.controller.Watch(source.Kind[client.Object](
			w.cache, &resources.LiveScaledObject{}, functionOfOwned(w.client), kube.ChangedOrDiffers(readinessDiffers)))
		if err != nil {
			return fmt.Errorf("watch ScaledObjects: %w", err)
		}
		w.running = true
	case !installed && w.running:
		if err := w.cache.RemoveInformer(ctx, &resources.LiveScaledObject{}); err != nil {
			return fmt.Errorf("end the watch of ScaledObjects: %w", err)
		}
		w.running = false
	}
	return nil
}

// readinessDiffers reports whether the readiness of a ScaledObject has changed. KEDA also writes the status as a
// heartbeat.
func readinessDiffers(before, after client.Object) bool {
	was, _ := before.(*resources.LiveScaledObject)
	is, _ := after.(*resources.LiveScaledObject)
	return was == nil || is == nil || readiness(was) != readiness(is)
}

// ready is KEDA's Ready condition, or one of an HPA.
type ready struct{ status, message string }

// isConflict reports whether KEDA's write conflicted with another one, such as our apply. KEDA retries it at once,
// although its condition then reports that it cannot scale.
func (r ready) isConflict() bool {
	return r.status == string(metav1.ConditionFalse) && strings.Contains(r.message, conflictText)
}

func readiness(object *resources.LiveScaledObject) ready {
	for _, condition := range object.Status.Conditions {
		if condition.Type == "Ready" {
			return ready{status: condition.Status, message: condition.Message}
		}
	}
	return ready{}
}

// findConflictingAutoscalers finds users' autoscalers of a Function that its scaleConfig scales. Kubernetes lets none
// of several autoscalers act on the same pods.
func (r *Reconciler) findConflictingAutoscalers(ctx context.Context, s *scope) error {
	if !s.scaled() {
		return nil
	}
	hpas := &autoscalingv2.HorizontalPodAutoscalerList{}
	err := r.client.List(ctx, hpas, client.InNamespace(s.fn.Namespace), client.MatchingFields{targetIndex: s.fn.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list autoscalers: %w", err)
	}
	for i := range hpas.Items {
		if hpa := &hpas.Items[i]; !isOurs(hpa, s.fn) {
			s.conflictingAutoscalers = append(s.conflictingAutoscalers, hpa.Name)
		}
	}
	slices.Sort(s.conflictingAutoscalers)
	return nil
}

// targetOf returns the name of the Function that an HPA scales, directly or through its Deployment. It is empty for an
// HPA that scales something else.
func targetOf(hpa *autoscalingv2.HorizontalPodAutoscaler) string {
	switch target := hpa.Spec.ScaleTargetRef; target.Kind {
	case resources.FunctionKind, "Deployment":
		return target.Name
	default:
		return ""
	}
}

// isOurs reports whether an HPA is the Function's own or that of its ScaledObject.
func isOurs(hpa *autoscalingv2.HorizontalPodAutoscaler, fn *v1alpha2.Function) bool {
	owner := metav1.GetControllerOf(hpa)
	if owner == nil {
		return false
	}
	return owner.UID == fn.UID || owner.Kind == resources.ScaledObjectKind().Kind && owner.Name == fn.Name
}

func functionOfHPA(_ context.Context, object client.Object) []reconcile.Request {
	hpa, ok := object.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok || targetOf(hpa) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: hpa.Namespace, Name: targetOf(hpa)}}}
}

func targetDiffers(before, after client.Object) bool {
	was, _ := before.(*autoscalingv2.HorizontalPodAutoscaler)
	is, _ := after.(*autoscalingv2.HorizontalPodAutoscaler)
	return was == nil || is == nil || targetOf(was) != targetOf(is)
}

// retireScaling deletes the objects that must no longer scale the Deployment, before anything else sets its replicas.
func (r *Reconciler) retireScaling(ctx context.Context, s *scope) error {
	if !s.scaled() && s.scaledObject != nil && metav1.IsControlledBy(s.scaledObject, s.fn) {
		object := scaledObject()
		object.SetNamespace(s.scaledObject.Namespace)
		object.SetName(s.scaledObject.Name)
		object.SetUID(s.scaledObject.UID)
		object.SetDeletionTimestamp(s.scaledObject.DeletionTimestamp)
		if err := r.remove(ctx, object); err != nil {
			return fmt.Errorf("delete ScaledObject %q: %w", s.fn.Name, err)
		}
		s.scaledObject = nil
	}
	needless := !s.scaled() || s.keda || len(s.conflictingAutoscalers) > 0
	if needless && s.hpa != nil && metav1.IsControlledBy(s.hpa, s.fn) {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.hpa.GetNamespace(), Name: s.hpa.GetName(), UID: s.hpa.GetUID(),
		}}
		if err := r.remove(ctx, hpa); err != nil {
			return fmt.Errorf("delete HorizontalPodAutoscaler %q: %w", s.fn.Name, err)
		}
		s.hpa = nil
	}
	return nil
}

// remove deletes this object and not one that took its place.
func (r *Reconciler) remove(ctx context.Context, object client.Object) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	err := r.client.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID())})
	return client.IgnoreNotFound(err)
}

// applyScaling lets KEDA scale the Function or, without KEDA, an HPA.
func (r *Reconciler) applyScaling(ctx context.Context, s *scope) error {
	if !s.scaled() || s.deployment == nil {
		return nil
	}
	if s.keda {
		return r.applyScaledObject(ctx, s)
	}
	return r.applyHPA(ctx, s)
}

func (r *Reconciler) applyScaledObject(ctx context.Context, s *scope) error {
	var live metav1.Object
	if s.scaledObject != nil {
		live = s.scaledObject
	}
	desired := resources.ScaledObject(s.fn, s.settings.Scaling, s.tuning, s.triggers, s.httpCounted())
	result, err := r.applier.Apply(ctx, desired, live, wholeSpec)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return kube.WaitingForKEDA() // the CRD is just coming or going
	}
	if err != nil {
		return explain(err, v1alpha2.ConditionScaling, v1alpha2.ReasonScaledObjectFailed,
			fmt.Sprintf("ScaledObject %s %s failed: %v", s.fn.Name, verb(live == nil), err))
	}
	if result != nil {
		s.scaledObject = &resources.LiveScaledObject{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(result.Object, s.scaledObject); err != nil {
			return fmt.Errorf("read applied ScaledObject: %w", err)
		}
	}
	return nil
}

func (r *Reconciler) applyHPA(ctx context.Context, s *scope) error {
	if len(s.conflictingAutoscalers) > 0 {
		return nil // the user's own stands in
	}
	if s.hpa == nil {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{}
		err := r.live.Get(ctx, client.ObjectKeyFromObject(s.fn), hpa)
		switch {
		case err == nil:
			s.hpa = hpa
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("get HorizontalPodAutoscaler %q: %w", s.fn.Name, err)
		}
	}
	if s.hpa != nil && !metav1.IsControlledBy(s.hpa, s.fn) {
		return nil // the user's own stands in
	}
	err := r.applyAutoscaler(ctx, s)
	if err != nil {
		return explain(err, v1alpha2.ConditionScaling, v1alpha2.ReasonKedaNotInstalled,
			fmt.Sprintf("KEDA is not installed, and HorizontalPodAutoscaler %s %s failed: %v", s.fn.Name, verb(s.hpa == nil), err))
	}
	return nil
}

// mayGoToZero reports whether the minReplicas of a scaleConfig is 0.
func mayGoToZero(fn *v1alpha2.Function) bool {
	low, _ := workload.ReplicaBounds(fn)
	return low == 0
}

// applyAutoscaler applies the HPA that the cluster allows.
func (r *Reconciler) applyAutoscaler(ctx context.Context, s *scope) error {
	if !s.settings.Scaling.ExternalMetrics {
		return r.applyBuilt(ctx, s, resources.CPUAutoscaler(s.fn))
	}
	low, _ := workload.ReplicaBounds(s.fn)
	kept, err := r.zeroReplicas.Apply(low, s.now, func(low int32) error {
		return r.applyBuilt(ctx, s, resources.EventAutoscaler(s.fn, low, s.settings.Scaling, s.tuning, s.httpCounted()))
	})
	s.neverSleeps = kept > low
	return err
}

func (r *Reconciler) applyBuilt(ctx context.Context, s *scope, built *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration) error {
	desired, err := kube.ToUnstructured(built)
	if err != nil {
		return err
	}
	var live metav1.Object
	if s.hpa != nil {
		live = s.hpa
	}
	_, err = r.applier.Apply(ctx, desired, live)
	return err
}

// scalingCondition reports whether the number of pods follows the events.
func scalingCondition(s *scope) conditionUpdate {
	if failed := failureOf(s.err); failed != nil && failed.condition == v1alpha2.ConditionScaling {
		return failedCondition(s, failed)
	}
	low, high := workload.ReplicaBounds(s.fn)
	switch {
	case !s.applied:
		return conditionUpdate{}
	case !s.keda && len(s.conflictingAutoscalers) > 0:
		return conditionUpdate{
			status: metav1.ConditionFalse,
			reason: v1alpha2.ReasonKedaNotInstalled,
			message: fmt.Sprintf("KEDA is not installed, and HorizontalPodAutoscaler %s scales the Function. Install KEDA and "+
				"delete it; the Function then follows its events", strings.Join(s.conflictingAutoscalers, ", ")),
		}
	case !s.keda:
		return autoscalerCondition(s, low, high)
	case len(s.conflictingAutoscalers) > 0:
		return conditionUpdate{
			status: metav1.ConditionFalse,
			reason: v1alpha2.ReasonScaledObjectFailed,
			message: fmt.Sprintf("HorizontalPodAutoscaler %s scales the Function too, and Kubernetes lets none of several autoscalers act. "+
				"Delete it (or the ScaledObject that made it), or remove spec.scaleConfig", strings.Join(s.conflictingAutoscalers, ", ")),
		}
	case s.scaledObject == nil:
		return conditionUpdate{}
	}
	return kedaCondition(s, low, high)
}

// autoscalerCondition reports how an HPA scales the Function in a cluster without KEDA.
func autoscalerCondition(s *scope, low, high int32) conditionUpdate {
	active := scalingActive(s.hpa)
	update := conditionUpdate{status: metav1.ConditionFalse, reason: v1alpha2.ReasonKedaNotInstalled}
	switch {
	case !s.settings.Scaling.ExternalMetrics:
		update.message = fmt.Sprintf("KEDA is not installed, so a HorizontalPodAutoscaler keeps %d to %d replicas by CPU use "+
			"and the Function never sleeps. Install KEDA; the Function then uses it at once", max(low, 1), high)
	case active.status == string(metav1.ConditionFalse):
		update.reason = v1alpha2.ReasonAutoscalerFailed
		update.message = fmt.Sprintf("HorizontalPodAutoscaler %s keeps the replicas while it cannot scale: %s", s.fn.Name, active.message)
	case s.neverSleeps:
		update.message = fmt.Sprintf("KEDA is not installed, and the API server lets no HorizontalPodAutoscaler scale to zero, so one keeps 1 to %d "+
			"replicas by events and the Function never sleeps. Install KEDA, or enable the feature gate HPAScaleToZero of Kubernetes", high)
	default:
		update = conditionUpdate{
			status: metav1.ConditionTrue, reason: v1alpha2.ReasonAutoscalerReady,
			message: fmt.Sprintf("HorizontalPodAutoscaler %s keeps %d to %d replicas by events; KEDA is not installed", s.fn.Name, low, high),
		}
		if len(s.triggers) > 0 {
			update.message += ", which annotation " + v1alpha2.AnnotationTriggers + " needs"
		}
	}
	return update
}

// scalingActive returns the condition with which an HPA reports that it cannot read its metrics.
func scalingActive(hpa *autoscalingv2.HorizontalPodAutoscaler) ready {
	if hpa == nil {
		return ready{}
	}
	for _, condition := range hpa.Status.Conditions {
		if condition.Type == autoscalingv2.ScalingActive {
			return ready{status: string(condition.Status), message: condition.Message}
		}
	}
	return ready{}
}

// scalingActiveDiffers reports whether an HPA has begun or ceased to scale. The controller of HPAs writes the status at each sync.
func scalingActiveDiffers(before, after client.Object) bool {
	was, _ := before.(*autoscalingv2.HorizontalPodAutoscaler)
	is, _ := after.(*autoscalingv2.HorizontalPodAutoscaler)
	return was == nil || is == nil || scalingActive(was).status != scalingActive(is).status
}

// kedaCondition repeats KEDA's condition of the ScaledObject.
func kedaCondition(s *scope, low, high int32) conditionUpdate {
	keda := readiness(s.scaledObject)
	if keda.isConflict() && meta.FindStatusCondition(s.fn.Status.Conditions, v1alpha2.ConditionScaling) != nil {
		return conditionUpdate{}
	}
	switch {
	case keda.status == string(metav1.ConditionTrue):
		return conditionUpdate{
			status: metav1.ConditionTrue, reason: v1alpha2.ReasonScaledObjectReady,
			message: fmt.Sprintf("ScaledObject %s keeps %d to %d replicas", s.fn.Name, low, high),
		}
	case keda.status == string(metav1.ConditionFalse) && !keda.isConflict():
		return conditionUpdate{
			status: metav1.ConditionFalse, reason: v1alpha2.ReasonScaledObjectFailed,
			message: fmt.Sprintf("KEDA cannot scale by ScaledObject %s: %s", s.fn.Name, keda.message),
		}
	default:
		return unknown(v1alpha2.ReasonScaledObjectWaiting, "ScaledObject %s waits for KEDA", s.fn.Name)
	}
}
