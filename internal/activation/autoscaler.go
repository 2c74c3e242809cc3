package activation

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// ReplicasMetric is the external metric of the replicas that all work of a Function or workload wants, at what each trigger wants a replica
// to carry. HPAs have it in a cluster without KEDA, with a target of 1.
const ReplicasMetric = "rouse-replicas"

// ScalesByEvents reports whether an HPA has that metric.
func ScalesByEvents(hpa *autoscalingv2.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(hpa.Spec.Metrics, func(metric autoscalingv2.MetricSpec) bool {
		return metric.External != nil && metric.External.Metric.Name == ReplicasMetric
	})
}
