package resources

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// LiveScaledObject is what is read of a ScaledObject. A cache that has all of it, without a type, holds three times as much
// for a Function as of everything else.
type LiveScaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   LiveScaledObjectSpec   `json:"spec"`
	Status LiveScaledObjectStatus `json:"status"`
}

// LiveScaledObjectSpec has the triggers.
type LiveScaledObjectSpec struct {
	Triggers []LiveTrigger `json:"triggers"`
}

// LiveTrigger has what IsHTTPCounted reads.
type LiveTrigger struct {
	Metadata LiveTriggerMetadata `json:"metadata"`
}

// LiveTriggerMetadata has what IsHTTPCounted reads.
type LiveTriggerMetadata struct {
	HTTPCounted string `json:"httpCounted,omitempty"`
}

// LiveScaledObjectStatus is what KEDA says.
type LiveScaledObjectStatus struct {
	Conditions []LiveCondition `json:"conditions,omitempty"`
}

// LiveCondition is one of KEDA's.
type LiveCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// LiveScaledObjectList is what a cache reads.
type LiveScaledObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LiveScaledObject `json:"items"`
}

// AddLiveScaledObject has a scheme read ScaledObjects so.
func AddLiveScaledObject(scheme *runtime.Scheme) {
	kind := ScaledObjectKind()
	scheme.AddKnownTypeWithName(kind, &LiveScaledObject{})
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &LiveScaledObjectList{})
	metav1.AddToGroupVersion(scheme, kind.GroupVersion())
}

// DeepCopy is a copy that shares nothing.
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
