package resources

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// cpuUtilization is the share of the requested CPU, in percent, that the HPA
// aims at.
const cpuUtilization = 50

// HPA scales a Function with a scaleConfig where there is no KEDA. It knows
// nothing of the backlog and cannot wake a Function, so it keeps one replica.
func HPA(fn *v1alpha2.Function) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	low, high := workload.ReplicaBounds(fn)
	return autoscalingv2ac.HorizontalPodAutoscaler(fn.Name, fn.Namespace).
		WithLabels(internalLabels(fn)).
		WithOwnerReferences(ownerReference(fn)).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion("apps/v1").WithKind("Deployment").WithName(fn.Name)).
			WithMinReplicas(max(low, 1)).
			WithMaxReplicas(high).
			WithMetrics(autoscalingv2ac.MetricSpec().
				WithType(autoscalingv2.ResourceMetricSourceType).
				WithResource(autoscalingv2ac.ResourceMetricSource().
					WithName(corev1.ResourceCPU).
					WithTarget(autoscalingv2ac.MetricTarget().
						WithType(autoscalingv2.UtilizationMetricType).
						WithAverageUtilization(cpuUtilization)))))
}
