package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer keeps a deleted Subscription until its durable consumer is gone.
const Finalizer = "eventing.kyma-project.io"

// Subscription asks for events of certain types to be delivered to a sink.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=kyma-eventing
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.ready"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Subscription struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SubscriptionSpec `json:"spec,omitempty"`
	// +default={"observedGeneration":-1,"ready":false,"types":[]}
	Status SubscriptionStatus `json:"status,omitempty"`
}

// SubscriptionList is a list of Subscriptions.
//
// +kubebuilder:object:root=true
type SubscriptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Subscription `json:"items"`
}

// SubscriptionSpec says what is delivered where.
type SubscriptionSpec struct {
	// ID is an identifier that only other backends use.
	// +optional
	ID string `json:"id,omitempty"`

	// Sink is the URL of a Service in the Subscription's own namespace.
	Sink string `json:"sink"`

	// TypeMatching says whether Types are names to be cleaned and joined with
	// the source (standard) or subjects to be taken as they are (exact).
	// +kubebuilder:default=standard
	// +optional
	TypeMatching TypeMatching `json:"typeMatching,omitempty"`

	// Source is the origin of the events. It may be empty for exact matching.
	Source string `json:"source"`

	// Types are the event types to deliver.
	Types []string `json:"types"`

	// Config tunes the delivery. Unknown keys are kept and ignored.
	// +kubebuilder:default={"maxInFlightMessages":"10"}
	// +optional
	Config map[string]string `json:"config,omitempty"`

	// Filter picks from the events of the types. Without it all are delivered.
	// +optional
	Filter *Filter `json:"filter,omitempty"`

	// Delivery tunes how events are delivered.
	// +optional
	Delivery *Delivery `json:"delivery,omitempty"`

	// Paused stops the delivery. Events are kept until it goes on.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// TypeMatching is the way in which event types become subjects. It is not an
// enum in the schema: an unknown value is reported in the status.
type TypeMatching string

const (
	// TypeMatchingStandard cleans source and type and joins them.
	TypeMatchingStandard TypeMatching = "standard"
	// TypeMatchingExact takes the type as it is and ignores the source.
	TypeMatchingExact TypeMatching = "exact"
)

// Keys of SubscriptionSpec.Config.
const (
	// ConfigMaxInFlight bounds the events that are being delivered at a time.
	ConfigMaxInFlight = "maxInFlightMessages"
	// ConfigQoS is a delivery guarantee; only other backends use it.
	ConfigQoS = "qos"
	// ConfigWebhookType is a kind of authentication; only other backends use it.
	ConfigWebhookType = "type"
	// ConfigGrantType is an OAuth 2.0 grant; only other backends use it.
	ConfigGrantType = "grantType"
)

const (
	// DefaultMaxInFlight is the value of ConfigMaxInFlight when it is not given.
	DefaultMaxInFlight = 10
	// LargestMaxInFlight is what a larger one counts as.
	LargestMaxInFlight = 10_000
)
