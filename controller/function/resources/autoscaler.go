package resources

import (
	"fmt"

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
	built := autoscaler(ScaleTarget{"Deployment", fn.Name, max(low, 1), high}, fn.Name, fn.Namespace, autoscalingv2ac.MetricSpec().
		WithType(autoscalingv2.ResourceMetricSourceType).
		WithResource(autoscalingv2ac.ResourceMetricSource().
			WithName(corev1.ResourceCPU).
			WithTarget(autoscalingv2ac.MetricTarget().
				WithType(autoscalingv2.UtilizationMetricType).
				WithAverageUtilization(cpuUtilization))))
	return built.WithLabels(internalLabels(fn)).WithOwnerReferences(ownerReference(fn))
}

// longestWindow is the longest stabilization window of an HPA.
const longestWindow = 3600

// EventAutoscaler scales a Function by its backlog and requests in a cluster without KEDA, from the scaler's external metrics. It keeps
// at least low replicas, which may be 0 where the API server allows that.
func EventAutoscaler(
	fn *v1alpha2.Function, low int32, scaling Scaling, tuning workload.Tuning, counted bool,
) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	_, high := workload.ReplicaBounds(fn)
	metadata := triggerMetadata("function", fn.Name, scaling, tuning)
	addHTTP(metadata, scaling, tuning, counted)
	built := autoscaler(ScaleTarget{"Deployment", fn.Name, low, high}, fn.Name, fn.Namespace, eventMetric(metadata))
	built.Spec.WithBehavior(eventBehavior(scaling, tuning))
	return built.WithLabels(internalLabels(fn)).WithOwnerReferences(ownerReference(fn))
}

// WorkloadAutoscaler scales a workload by what waits for a Service, as EventAutoscaler does a Function.
func WorkloadAutoscaler(
	service *corev1.Service, target ScaleTarget, scaling Scaling, tuning workload.Tuning, counted bool,
) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	metadata := triggerMetadata("service", service.Name, scaling, tuning)
	addHTTP(metadata, scaling, tuning, counted)
	built := autoscaler(target, service.Name, service.Namespace, eventMetric(metadata))
	built.Spec.WithBehavior(eventBehavior(scaling, tuning))
	return built.WithLabels(map[string]string{v1alpha2.LabelScalesService: string(service.UID)}).WithOwnerReferences(
		metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Service").WithName(service.Name).WithUID(service.UID).
			WithController(true).WithBlockOwnerDeletion(true))
}

// eventMetric has the metadata of a trigger as its selector.
func eventMetric(metadata map[string]any) *autoscalingv2ac.MetricSpecApplyConfiguration {
	selector := make(map[string]string, len(metadata))
	for key, value := range metadata {
		if key != metadataScalerAddress {
			selector[key] = fmt.Sprint(value)
		}
	}
	return autoscalingv2ac.MetricSpec().
		WithType(autoscalingv2.ExternalMetricSourceType).
		WithExternal(autoscalingv2ac.ExternalMetricSource().
			WithMetric(autoscalingv2ac.MetricIdentifier().WithName(activation.ReplicasMetric).
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector))).
			WithTarget(autoscalingv2ac.MetricTarget().
				WithType(autoscalingv2.AverageValueMetricType).
				WithAverageValue(resource.MustParse("1"))))
}

// eventBehavior has one window for all replicas that are removed, the last one as well.
func eventBehavior(scaling Scaling, tuning workload.Tuning) *autoscalingv2ac.HorizontalPodAutoscalerBehaviorApplyConfiguration {
	policy := func(kind autoscalingv2.HPAScalingPolicyType, value int32) *autoscalingv2ac.HPAScalingPolicyApplyConfiguration {
		return autoscalingv2ac.HPAScalingPolicy().WithType(kind).WithValue(value).WithPeriodSeconds(policyPeriod)
	}
	window := int32(min(max(scaling.ScaleDownSeconds, tuning.CooldownSeconds), longestWindow))
	return autoscalingv2ac.HorizontalPodAutoscalerBehavior().
		WithScaleUp(autoscalingv2ac.HPAScalingRules().WithStabilizationWindowSeconds(0).WithSelectPolicy(autoscalingv2.MaxChangePolicySelect).
			WithPolicies(policy(autoscalingv2.PercentScalingPolicy, upPercent), policy(autoscalingv2.PodsScalingPolicy, upPods))).
		WithScaleDown(autoscalingv2ac.HPAScalingRules().WithStabilizationWindowSeconds(window).WithSelectPolicy(autoscalingv2.MaxChangePolicySelect).
			WithPolicies(policy(autoscalingv2.PercentScalingPolicy, downPercent)))
}

func autoscaler(
	target ScaleTarget, name, namespace string, metric *autoscalingv2ac.MetricSpecApplyConfiguration,
) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	return autoscalingv2ac.HorizontalPodAutoscaler(name, namespace).
		WithSpec(autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion("apps/v1").WithKind(target.Kind).WithName(target.Name)).
			WithMinReplicas(target.Low).
			WithMaxReplicas(target.High).
			WithMetrics(metric))
}
