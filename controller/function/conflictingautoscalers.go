package function

import (
	"context"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// findConflictingAutoscalers looks for autoscalers that users made for a Function which is
// scaled by its scaleConfig. Kubernetes lets none of several act on the same pods.
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

// targetOf is the name of the Function that an HPA scales, directly or through
// its Deployment. It is empty for an HPA that scales something else.
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
