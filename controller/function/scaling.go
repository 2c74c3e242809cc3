package function

import (
	"context"
	"errors"
	"fmt"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// kedaDelay is how soon KEDA is tried again while it is installed or removed.
const kedaDelay = 2 * time.Second

// errNoKEDA means that the API server does not serve ScaledObjects.
var errNoKEDA = errors.New("the API server does not serve ScaledObjects yet, or no longer")

// retireScaling deletes what must no longer scale the Deployment, before
// anything else decides about its replicas.
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

// applyScaling lets KEDA scale the Function or, where there is none, an HPA.
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
	desired := resources.ScaledObject(s.fn, s.settings.Scaling, s.tuning, s.httpCounted())
	result, err := r.applier.Apply(ctx, desired, live, wholeSpec)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return kube.Waiting(errNoKEDA, kedaDelay) // the CRD is just coming or going
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
	desired, err := kube.ToUnstructured(resources.HPA(s.fn))
	if err != nil {
		return err
	}
	if _, err := r.applier.Apply(ctx, desired, s.hpa); err != nil {
		return explain(err, v1alpha2.ConditionScaling, v1alpha2.ReasonKedaNotInstalled,
			fmt.Sprintf("KEDA is not installed, and HorizontalPodAutoscaler %s %s failed: %v", s.fn.Name, verb(s.hpa == nil), err))
	}
	return nil
}
