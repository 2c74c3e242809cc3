package target

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kedarules"
)

func scaledObjectsResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
}

func autoscalersResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
}

// scaledObject holds the fields of KEDA's resource that explain replicas.
type scaledObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Min      int   `json:"minReplicaCount"`
		Max      int   `json:"maxReplicaCount"`
		Cooldown int64 `json:"cooldownPeriod"`
	} `json:"spec"`
	Status struct {
		HPA        string       `json:"hpaName"`
		LastActive *metav1.Time `json:"lastActiveTime"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// Scaling implements Inventory.
func (c *cluster) Scaling(ctx context.Context, namespace, name string) (*kedarules.Status, error) {
	deployment, found, err := get[appsv1.Deployment](ctx, c, deploymentsResource(), namespace, name)
	if err != nil || !found {
		return nil, err
	}
	status := &kedarules.Status{Ready: int(deployment.Status.ReadyReplicas)}
	if deployment.Spec.Replicas != nil {
		status.Replicas = int(*deployment.Spec.Replicas)
	}
	scaled, found, err := get[scaledObject](ctx, c, scaledObjectsResource(), namespace, name)
	if err != nil {
		return nil, err
	}
	if !found {
		return status, c.scalingWithoutKEDA(ctx, namespace, name, status)
	}
	scaled.describe(status)
	if scaled.Status.HPA == "" {
		return status, nil
	}
	autoscaler, found, err := get[autoscalingv2.HorizontalPodAutoscaler](ctx, c, autoscalersResource(), namespace, scaled.Status.HPA)
	if err == nil && found {
		describeAutoscaler(&autoscaler, status)
	}
	return status, err
}

// scalingWithoutKEDA adds what the HPA of a Function decides, or why there is none that scales by events.
func (c *cluster) scalingWithoutKEDA(ctx context.Context, namespace, name string, status *kedarules.Status) error {
	autoscaler, found, err := get[autoscalingv2.HorizontalPodAutoscaler](ctx, c, autoscalersResource(), namespace, name)
	switch {
	case err != nil:
		return err
	case found && activation.ScalesByEvents(&autoscaler):
		describeAutoscaler(&autoscaler, status)
		describeAlone(&autoscaler, status)
		return nil
	}
	status.Problem, err = c.whyUnscaled(ctx, namespace, name)
	return err
}

// describeAlone adds what an HPA decides in a cluster without KEDA.
func describeAlone(autoscaler *autoscalingv2.HorizontalPodAutoscaler, status *kedarules.Status) {
	status.Autoscaler, status.Min, status.Max = true, int(ptr.Deref(autoscaler.Spec.MinReplicas, 1)), int(autoscaler.Spec.MaxReplicas)
	if behavior := autoscaler.Spec.Behavior; behavior != nil && behavior.ScaleDown != nil {
		status.CooldownSeconds = int64(ptr.Deref(behavior.ScaleDown.StabilizationWindowSeconds, 0))
	}
	status.Active = slices.ContainsFunc(status.Metrics, func(metric kedarules.Metric) bool { return metric.Value > 0 })
}

// get reads an object. found is false when there is none, or no such resource.
func get[T any](ctx context.Context, c *cluster, resource schema.GroupVersionResource, namespace, name string) (object T, found bool, err error) {
	read, err := c.objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return object, false, nil
	case err != nil:
		return object, false, c.explain(err, "get", resource.Resource, namespace)
	}
	object, err = into[T](read.Object)
	return object, true, err
}

// whyUnscaled returns the reason that a Function has no ScaledObject.
func (c *cluster) whyUnscaled(ctx context.Context, namespace, name string) (string, error) {
	fn, _, err := get[v1alpha2.Function](ctx, c, functionsResource(), namespace, name)
	if err != nil {
		return "", err
	}
	for _, condition := range fn.Status.Conditions {
		if condition.Type == v1alpha2.ConditionScaling && condition.Message != "" {
			return condition.Message, nil
		}
	}
	return "it has no ScaledObject yet", nil
}

func (o *scaledObject) describe(status *kedarules.Status) {
	status.Min, status.Max, status.CooldownSeconds = o.Spec.Min, o.Spec.Max, o.Spec.Cooldown
	if at := o.Status.LastActive; at != nil {
		status.LastActive = new(at.UTC())
	}
	for _, condition := range o.Status.Conditions {
		switch {
		case condition.Type == "Active":
			status.Active = condition.Status == string(metav1.ConditionTrue)
		case condition.Type == "Ready" && condition.Status == string(metav1.ConditionFalse):
			status.Problem = condition.Message
		}
	}
	status.ReadAnnotations(o.Metadata.Annotations)
}

// describeAutoscaler adds the metrics that the HPA has read, and why it could not.
func describeAutoscaler(autoscaler *autoscalingv2.HorizontalPodAutoscaler, status *kedarules.Status) {
	targets := map[string]float64{}
	for i := range autoscaler.Spec.Metrics {
		if external := autoscaler.Spec.Metrics[i].External; external != nil && external.Target.AverageValue != nil {
			targets[external.Metric.Name] = external.Target.AverageValue.AsApproximateFloat64()
		}
	}
	for i := range autoscaler.Status.CurrentMetrics {
		external := autoscaler.Status.CurrentMetrics[i].External
		if external == nil || external.Current.AverageValue == nil || targets[external.Metric.Name] == 0 {
			continue
		}
		status.Metrics = append(status.Metrics, kedarules.Metric{
			Name:   withoutPrefix(external.Metric.Name),
			Value:  external.Current.AverageValue.AsApproximateFloat64() * float64(autoscaler.Status.CurrentReplicas),
			Target: targets[external.Metric.Name],
		})
	}
	status.Problem = cmp.Or(status.Problem, autoscalerProblem(autoscaler))
}

// autoscalerProblem returns the reason that the HPA does not scale, other than that there are no replicas.
func autoscalerProblem(autoscaler *autoscalingv2.HorizontalPodAutoscaler) string {
	for _, condition := range autoscaler.Status.Conditions {
		if condition.Type == autoscalingv2.ScalingActive && condition.Status == corev1.ConditionFalse && condition.Reason != "ScalingDisabled" {
			return fmt.Sprintf("the HPA %s: %s", autoscaler.Name, condition.Message)
		}
	}
	return ""
}

// withoutPrefix removes KEDA's prefix of metrics, such as s0-.
func withoutPrefix(metric string) string {
	before, after, found := strings.Cut(metric, "-")
	if found && strings.HasPrefix(before, "s") && strings.Trim(before[1:], "0123456789") == "" {
		return after
	}
	return metric
}
