package resources

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// ScaledObjectKind is KEDA's resource. Its Go types are not used, so that a
// cluster without KEDA and a newer KEDA are both fine.
func ScaledObjectKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
}

// ScaledObject lets KEDA scale the Function's Deployment by its backlog. It has
// no fallback: a backlog that cannot be read must hold the replicas, and a
// fallback would wake every sleeping Function. Counted reports whether pods can be
// asked for their HTTP load.
func ScaledObject(fn *v1alpha2.Function, scaling Scaling, tuning workload.Tuning, counted bool) *unstructured.Unstructured {
	low, high := workload.ReplicaBounds(fn)
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"scaleTargetRef":        map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": fn.Name},
			"minReplicaCount":       int64(low),
			"maxReplicaCount":       int64(high),
			"pollingInterval":       tuning.PollingSeconds,
			"cooldownPeriod":        tuning.CooldownSeconds,
			"initialCooldownPeriod": scaling.InitialCooldownSeconds,
			"advanced":              map[string]any{"horizontalPodAutoscalerConfig": hpaConfig(fn.Name, scaling)},
			"triggers":              []any{trigger(fn.Name, scaling, tuning, counted)},
		},
	}}
	object.SetGroupVersionKind(ScaledObjectKind())
	object.SetNamespace(fn.Namespace)
	object.SetName(fn.Name)
	object.SetLabels(internalLabels(fn)) // KEDA copies them to the HPA: none of the user's
	object.SetOwnerReferences([]metav1.OwnerReference{owner(fn)})
	return object
}

func trigger(function string, scaling Scaling, tuning workload.Tuning, counted bool) map[string]any {
	made := map[string]any{
		"type":     "external-push",
		"metadata": triggerMetadata(function, scaling, tuning, counted),
	}
	if scaling.ScalerAuthentication != "" {
		made["authenticationRef"] = map[string]any{"kind": "ClusterTriggerAuthentication", "name": scaling.ScalerAuthentication}
	}
	return made
}

// triggerMetadata is what KEDA hands to the scaler with every call.
func triggerMetadata(function string, scaling Scaling, tuning workload.Tuning, counted bool) map[string]any {
	metadata := map[string]any{
		"scalerAddress":          scaling.ScalerAddress,
		"function":               function,
		"activationLagThreshold": "0",
	}
	if tuning.LagThreshold > 0 {
		metadata["lagThreshold"] = strconv.FormatInt(tuning.LagThreshold, 10)
	}
	if !scaling.HTTPWake || !tuning.HTTPWake {
		return metadata
	}
	metadata["httpConcurrency"] = strconv.FormatInt(tuning.HTTPConcurrency, 10)
	if !counted {
		metadata[metadataHTTPCounted] = "false"
	}
	return metadata
}

// metadataHTTPCounted is "false" where every path of a pod leads to the handler: only gateways count then.
const metadataHTTPCounted = "httpCounted"

// IsHTTPCounted reports whether a ScaledObject says that pods can be asked for their HTTP load.
func IsHTTPCounted(scaledObject *LiveScaledObject) bool {
	return !slices.ContainsFunc(scaledObject.Spec.Triggers, func(trigger LiveTrigger) bool { return trigger.Metadata.HTTPCounted == "false" })
}

// hpaConfig lets a burst have all its replicas at once and takes them away when
// the backlog has stayed small for a while.
func hpaConfig(function string, scaling Scaling) map[string]any {
	config := map[string]any{
		"behavior": map[string]any{
			"scaleUp": map[string]any{
				"stabilizationWindowSeconds": int64(0),
				"selectPolicy":               "Max",
				"policies": []any{
					map[string]any{"type": "Percent", "value": int64(900), "periodSeconds": int64(15)},
					map[string]any{"type": "Pods", "value": int64(20), "periodSeconds": int64(15)},
				},
			},
			"scaleDown": map[string]any{
				"stabilizationWindowSeconds": scaling.ScaleDownSeconds,
				"selectPolicy":               "Max",
				"policies": []any{
					map[string]any{"type": "Percent", "value": int64(100), "periodSeconds": int64(15)},
				},
			},
		},
	}
	if name := hpaName(function); name != "" {
		config["name"] = name
	}
	return config
}
