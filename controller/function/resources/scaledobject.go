package resources

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/workload"
)

// ScaledObjectKind is KEDA's resource. Its Go types are not used, so that both a cluster without KEDA and a newer KEDA
// work.
func ScaledObjectKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
}

// ScaleTarget is what a ScaledObject scales, and between which numbers of replicas.
type ScaleTarget struct {
	Kind, Name string // of apps/v1
	Low, High  int32
}

// Scalable is a workload that KEDA scales.
type Scalable interface {
	metav1.Object
	runtime.Object
}

// NewScalable returns an empty workload of a target's kind, a Deployment where that is not StatefulSet, with the parts that decide how
// it is scaled.
func NewScalable(kind string) (object Scalable, replicas **int32, template *corev1.PodTemplateSpec) {
	if kind == "StatefulSet" {
		set := &appsv1.StatefulSet{}
		return set, &set.Spec.Replicas, &set.Spec.Template
	}
	deployment := &appsv1.Deployment{}
	return deployment, &deployment.Spec.Replicas, &deployment.Spec.Template
}

// ScaledObject lets KEDA scale the Function's Deployment by its backlog, and by further triggers. counted reports whether
// pods can report their HTTP load.
func ScaledObject(
	fn *v1alpha2.Function, scaling Scaling, tuning workload.Tuning, further []Trigger, counted bool,
) *unstructured.Unstructured {
	low, high := workload.ReplicaBounds(fn)
	metadata := triggerMetadata("function", fn.Name, scaling, tuning)
	addHTTP(metadata, scaling, tuning, counted)
	object := scaledObject(fn.Name, ScaleTarget{"Deployment", fn.Name, low, high}, scaling, tuning, triggers(scaling, metadata, further))
	object.SetNamespace(fn.Namespace)
	object.SetLabels(internalLabels(fn)) // KEDA copies them to the HPA: none of the user's
	object.SetOwnerReferences([]metav1.OwnerReference{owner(fn)})
	return object
}

// WorkloadScaledObject lets KEDA scale a workload by the events that wait for a Service, by its HTTP requests and by further triggers.
// counted reports whether pods can report their HTTP load. When it is deleted, KEDA sets the replicas that there were before.
func WorkloadScaledObject(
	service *corev1.Service, target ScaleTarget, scaling Scaling, tuning workload.Tuning, further []Trigger, counted bool,
) *unstructured.Unstructured {
	metadata := triggerMetadata("service", service.Name, scaling, tuning)
	addHTTP(metadata, scaling, tuning, counted)
	object := scaledObject(service.Name, target, scaling, tuning, triggers(scaling, metadata, further))
	_ = unstructured.SetNestedField(object.Object, true, "spec", "advanced", "restoreToOriginalReplicaCount") // there is such a map
	object.SetNamespace(service.Namespace)
	object.SetLabels(map[string]string{v1alpha2.LabelScalesService: string(service.UID)})
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))})
	return object
}

// scaledObject has no fallback: while a backlog cannot be read the replicas must stay, and a fallback would wake everything that is
// asleep.
func scaledObject(name string, target ScaleTarget, scaling Scaling, tuning workload.Tuning, triggers []any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"scaleTargetRef":        map[string]any{"apiVersion": "apps/v1", "kind": target.Kind, "name": target.Name},
			"minReplicaCount":       int64(target.Low),
			"maxReplicaCount":       int64(target.High),
			"pollingInterval":       tuning.PollingSeconds,
			"cooldownPeriod":        tuning.CooldownSeconds,
			"initialCooldownPeriod": scaling.InitialCooldownSeconds,
			"advanced":              map[string]any{"horizontalPodAutoscalerConfig": hpaConfig(name, scaling)},
			"triggers":              triggers,
		},
	}}
	object.SetGroupVersionKind(ScaledObjectKind())
	object.SetName(name)
	return object
}

// triggers are the scaler's, and further ones.
func triggers(scaling Scaling, metadata map[string]any, further []Trigger) []any {
	ours := trigger("external-push", metadata)
	if scaling.ScalerAuthentication != "" {
		ours["authenticationRef"] = map[string]any{"kind": "ClusterTriggerAuthentication", "name": scaling.ScalerAuthentication}
	}
	all := []any{ours}
	for _, one := range further {
		all = append(all, furtherTrigger(one))
	}
	return all
}

func trigger(kind string, metadata map[string]any) map[string]any {
	return map[string]any{"type": kind, "metadata": metadata}
}

func furtherTrigger(of Trigger) map[string]any {
	metadata := make(map[string]any, len(of.Metadata))
	for key, value := range of.Metadata {
		metadata[key] = value
	}
	made := trigger(of.Type, metadata)
	for key, value := range map[string]string{"name": of.Name, "metricType": of.MetricType} {
		if value != "" {
			made[key] = value
		}
	}
	if of.UseCachedMetrics {
		made["useCachedMetrics"] = true
	}
	if ref := of.AuthenticationRef; ref != nil {
		made["authenticationRef"] = map[string]any{"name": ref.Name}
	}
	return made
}

// metadataScalerAddress is for KEDA alone.
const metadataScalerAddress = "scalerAddress"

// triggerMetadata is what KEDA passes to the scaler with every call. key says what name is of.
func triggerMetadata(key, name string, scaling Scaling, tuning workload.Tuning) map[string]any {
	metadata := map[string]any{
		metadataScalerAddress:    scaling.ScalerAddress,
		key:                      name,
		"activationLagThreshold": "0",
	}
	if tuning.LagThreshold > 0 {
		metadata["lagThreshold"] = strconv.FormatInt(tuning.LagThreshold, 10)
	}
	return metadata
}

func addHTTP(metadata map[string]any, scaling Scaling, tuning workload.Tuning, counted bool) {
	if !scaling.HTTPWake || !tuning.HTTPWake {
		return
	}
	metadata["httpConcurrency"] = strconv.FormatInt(tuning.HTTPConcurrency, 10)
	if !counted {
		metadata[metadataHTTPCounted] = "false"
	}
}

// metadataHTTPCounted is "false" where every path of a pod leads to the handler, so that only gateways count.
const metadataHTTPCounted = "httpCounted"

// IsHTTPCounted reports whether, according to a ScaledObject, pods can report their HTTP load.
func IsHTTPCounted(scaledObject *LiveScaledObject) bool {
	return !slices.ContainsFunc(scaledObject.Spec.Triggers, func(trigger LiveTrigger) bool { return trigger.Metadata.HTTPCounted == "false" })
}

// The policies of autoscalers, by which a burst gets all its replicas at once.
const (
	policyPeriod = 15
	upPercent    = 900
	upPods       = 20
	downPercent  = 100
)

// hpaConfig lets a burst get all its replicas at once and removes them after the backlog has stayed small for a while.
func hpaConfig(function string, scaling Scaling) map[string]any {
	config := map[string]any{
		"behavior": map[string]any{
			"scaleUp": map[string]any{
				"stabilizationWindowSeconds": int64(0),
				"selectPolicy":               "Max",
				"policies": []any{
					map[string]any{"type": "Percent", "value": int64(upPercent), "periodSeconds": int64(policyPeriod)},
					map[string]any{"type": "Pods", "value": int64(upPods), "periodSeconds": int64(policyPeriod)},
				},
			},
			"scaleDown": map[string]any{
				"stabilizationWindowSeconds": scaling.ScaleDownSeconds,
				"selectPolicy":               "Max",
				"policies": []any{
					map[string]any{"type": "Percent", "value": int64(downPercent), "periodSeconds": int64(policyPeriod)},
				},
			},
		},
	}
	if name := hpaName(function); name != "" {
		config["name"] = name
	}
	return config
}

// LiveScaledObject holds the fields of a ScaledObject that are read. An untyped cache of whole objects takes three
// times as much memory per Function as everything else.
type LiveScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   LiveScaledObjectSpec   `json:"spec"`
	Status LiveScaledObjectStatus `json:"status"`
}

// LiveScaledObjectSpec holds the triggers.
type LiveScaledObjectSpec struct {
	Triggers []LiveTrigger `json:"triggers"`
}

// LiveTrigger holds the metadata that IsHTTPCounted reads.
type LiveTrigger struct {
	Metadata LiveTriggerMetadata `json:"metadata"`
}

// LiveTriggerMetadata holds the field that IsHTTPCounted reads.
type LiveTriggerMetadata struct {
	HTTPCounted string `json:"httpCounted,omitempty"`
}

// LiveScaledObjectStatus is KEDA's status.
type LiveScaledObjectStatus struct {
	Conditions []LiveCondition `json:"conditions,omitempty"`
}

// LiveCondition is a condition of KEDA's.
type LiveCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// LiveScaledObjectList is a list of ScaledObjects.
type LiveScaledObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LiveScaledObject `json:"items"`
}

// AddLiveScaledObject registers LiveScaledObject for ScaledObjects in a scheme.
func AddLiveScaledObject(scheme *runtime.Scheme) {
	kind := ScaledObjectKind()
	scheme.AddKnownTypeWithName(kind, &LiveScaledObject{})
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &LiveScaledObjectList{})
	metav1.AddToGroupVersion(scheme, kind.GroupVersion())
}

// DeepCopy returns a copy that shares nothing with o.
func (o *LiveScaledObject) DeepCopy() *LiveScaledObject {
	copied := &LiveScaledObject{TypeMeta: o.TypeMeta}
	o.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.Triggers = slices.Clone(o.Spec.Triggers)
	copied.Status.Conditions = slices.Clone(o.Status.Conditions)
	return copied
}

// DeepCopyObject implements runtime.Object.
func (o *LiveScaledObject) DeepCopyObject() runtime.Object { return o.DeepCopy() }

// DeepCopyObject implements runtime.Object.
func (l *LiveScaledObjectList) DeepCopyObject() runtime.Object {
	copied := &LiveScaledObjectList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&copied.ListMeta)
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopy())
	}
	return copied
}
