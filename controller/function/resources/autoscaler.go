package resources

import (
	"fmt"
	"maps"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/workload"
)

// cpuUtilization is the HPA's target utilization of the requested CPU, in percent.
const cpuUtilization = 50

// CPUAutoscaler scales a Function with a scaleConfig in a cluster without KEDA. It cannot read the backlog or wake a Function, so
// it keeps at least one replica.
func CPUAutoscaler(fn *v1alpha2.Function) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	low, high := workload.ReplicaBounds(fn)
	return autoscaler(fn, max(low, 1), high, autoscalingv2ac.MetricSpec().
		WithType(autoscalingv2.ResourceMetricSourceType).
		WithResource(autoscalingv2ac.ResourceMetricSource().
			WithName(corev1.ResourceCPU).
			WithTarget(autoscalingv2ac.MetricTarget().
				WithType(autoscalingv2.UtilizationMetricType).
				WithAverageUtilization(cpuUtilization))))
}

// longestWindow is the longest stabilization window of an HPA.
const longestWindow = 3600

// EventAutoscaler scales a Function by its backlog and requests in a cluster without KEDA, from the scaler's external metrics. It keeps
// at least low replicas, which may be 0 where the API server allows that. An HPA has one window for all that it removes, the last
// replica as well.
func EventAutoscaler(
	fn *v1alpha2.Function, low int32, scaling Scaling, tuning workload.Tuning, counted bool,
) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	_, high := workload.ReplicaBounds(fn)
	metadata := triggerMetadata("function", fn.Name, scaling, tuning)
	addHTTP(metadata, scaling, tuning, counted)
	delete(metadata, metadataScalerAddress)
	selector := make(map[string]string, len(metadata))
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		selector[key] = fmt.Sprint(metadata[key])
	}
	built := autoscaler(fn, low, high, autoscalingv2ac.MetricSpec().
		WithType(autoscalingv2.ExternalMetricSourceType).
		WithExternal(autoscalingv2ac.ExternalMetricSource().
			WithMetric(autoscalingv2ac.MetricIdentifier().WithName(activation.ReplicasMetric).WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector))).
			WithTarget(autoscalingv2ac.MetricTarget().
				WithType(autoscalingv2.AverageValueMetricType).
				WithAverageValue(resource.MustParse("1")))))
	policy := func(kind autoscalingv2.HPAScalingPolicyType, value int32) *autoscalingv2ac.HPAScalingPolicyApplyConfiguration {
		return autoscalingv2ac.HPAScalingPolicy().WithType(kind).WithValue(value).WithPeriodSeconds(policyPeriod)
	}
	window := int32(min(max(scaling.ScaleDownSeconds, tuning.CooldownSeconds), longestWindow))
	built.Spec.WithBehavior(autoscalingv2ac.HorizontalPodAutoscalerBehavior().
		WithScaleUp(autoscalingv2ac.HPAScalingRules().WithStabilizationWindowSeconds(0).WithSelectPolicy(autoscalingv2.MaxChangePolicySelect).
			WithPolicies(policy(autoscalingv2.PercentScalingPolicy, upPercent), policy(autoscalingv2.PodsScalingPolicy, upPods))).
		WithScaleDown(autoscalingv2ac.HPAScalingRules().WithStabilizationWindowSeconds(window).WithSelectPolicy(autoscalingv2.MaxChangePolicySelect).
			WithPolicies(policy(autoscalingv2.PercentScalingPolicy, downPercent))))
	return built
}

func autoscaler(
	fn *v1alpha2.Function, low, high int32, metric *autoscalingv2ac.MetricSpecApplyConfiguration,
) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	return autoscalingv2ac.HorizontalPodAutoscaler(fn.Name, fn.Namespace).
		WithLabels(internalLabels(fn)).
		WithOwnerReferences(ownerReference(fn)).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion("apps/v1").WithKind("Deployment").WithName(fn.Name)).
			WithMinReplicas(low).
			WithMaxReplicas(high).
			WithMetrics(metric))
}
