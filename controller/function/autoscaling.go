package function

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

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
		return conditionUpdate{
			status: metav1.ConditionFalse,
			reason: v1alpha2.ReasonKedaNotInstalled,
			message: fmt.Sprintf("KEDA is not installed, so a HorizontalPodAutoscaler keeps %d to %d replicas by CPU use "+
				"and the Function never sleeps. Install KEDA; the Function then uses it at once", max(low, 1), high),
		}
	case len(s.conflictingAutoscalers) > 0:
		return conditionUpdate{
			status: metav1.ConditionFalse,
			reason: v1alpha2.ReasonScaledObjectFailed,
			message: fmt.Sprintf("HorizontalPodAutoscaler %s scales the Function too, and Kubernetes lets none of several act. "+
				"Delete it (or the ScaledObject that made it), or remove spec.scaleConfig", strings.Join(s.conflictingAutoscalers, ", ")),
		}
	case s.scaledObject == nil:
		return conditionUpdate{}
	}
	return kedaCondition(s, low, high)
}

// kedaCondition repeats what KEDA says of the ScaledObject.
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
