package v1alpha2

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "eventing.kyma-project.io", Version: "v1alpha2"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Subscription{}, &SubscriptionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Finalizer keeps a deleted Subscription until its durable consumer is deleted.
const Finalizer = "eventing.kyma-project.io"

// Subscription requests the delivery of certain types of events to a sink.
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

// SubscriptionSpec selects events and their sink.
type SubscriptionSpec struct {
	// ID is an identifier that only other backends use.
	// +optional
	ID string `json:"id,omitempty"`

	// Sink is the URL of a Service in the Subscription's own namespace.
	Sink string `json:"sink"`

	// TypeMatching determines whether Types are names to be cleaned and joined with the source (standard) or literal
	// subjects (exact).
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

	// Filter selects among the events of the types. Without it all are delivered.
	// +optional
	Filter *Filter `json:"filter,omitempty"`

	// Delivery tunes how events are delivered.
	// +optional
	Delivery *Delivery `json:"delivery,omitempty"`

	// Paused suspends the delivery. Events are stored until it continues.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// TypeMatching determines how event types become subjects. It is not an enum in the schema: an unknown value is
// reported in the status.
type TypeMatching string

const (
	// TypeMatchingStandard cleans source and type and joins them.
	TypeMatchingStandard TypeMatching = "standard"
	// TypeMatchingExact uses the type unchanged and ignores the source.
	TypeMatchingExact TypeMatching = "exact"
)

// Keys of SubscriptionSpec.Config.
const (
	// ConfigMaxInFlight bounds the concurrent deliveries.
	ConfigMaxInFlight = "maxInFlightMessages"
	// ConfigQoS is a delivery guarantee; only other backends use it.
	ConfigQoS = "qos"
	// ConfigWebhookType is a kind of authentication; only other backends use it.
	ConfigWebhookType = "type"
	// ConfigGrantType is an OAuth 2.0 grant; only other backends use it.
	ConfigGrantType = "grantType"
)

const (
	// DefaultMaxInFlight is the default of ConfigMaxInFlight.
	DefaultMaxInFlight = 10
	// LargestMaxInFlight caps a larger value.
	LargestMaxInFlight = 10_000
)

// SubscriptionStatus is the state of a Subscription as observed by the controller.
type SubscriptionStatus struct {
	// ObservedGeneration is the generation that the status refers to, and -1 before the controller has observed any.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions explain Ready.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// Ready is true when events are being delivered.
	Ready bool `json:"ready"`

	// Types are the event types before and after cleaning.
	Types []EventType `json:"types"`

	// Backend contains the consumers of the messaging backend for the Subscription.
	// +optional
	Backend Backend `json:"backend,omitempty"`

	// DeadLetters is the number of stored dead letters.
	// +optional
	DeadLetters int64 `json:"deadLetters,omitempty"`
}

// MarshalJSON encodes nil Types as an empty list: the schema requires the list and rejects null.
func (s SubscriptionStatus) MarshalJSON() ([]byte, error) {
	type plain SubscriptionStatus
	if s.Types == nil {
		s.Types = []EventType{}
	}
	return json.Marshal(plain(s))
}

// EventType is an event type before and after cleaning.
type EventType struct {
	// OriginalType is the type as written in the spec.
	OriginalType string `json:"originalType"`
	// CleanType is the type without the characters that subjects cannot contain.
	CleanType string `json:"cleanType"`
}

// Backend contains the consumers of the messaging backend for a Subscription. Only Types is set for NATS; the other
// fields exist so that a status written for another backend survives an update.
type Backend struct {
	// Ev2hash is not used by NATS.
	// +optional
	Ev2hash int64 `json:"ev2hash,omitempty"`
	// EventMeshHash is not used by NATS.
	// +optional
	EventMeshHash int64 `json:"emshash,omitempty"`
	// EventMeshLocalHash is not used by NATS.
	// +optional
	EventMeshLocalHash int64 `json:"eventMeshLocalHash,omitempty"`
	// WebhookAuthHash is not used by NATS.
	// +optional
	WebhookAuthHash int64 `json:"webhookAuthHash,omitempty"`
	// ExternalSink is not used by NATS.
	// +optional
	ExternalSink string `json:"externalSink,omitempty"`
	// FailedActivation is not used by NATS.
	// +optional
	FailedActivation string `json:"failedActivation,omitempty"`
	// APIRuleName is not used by NATS.
	// +optional
	APIRuleName string `json:"apiRuleName,omitempty"`
	// EventMeshSubscriptionStatus is not used by NATS.
	// +optional
	EventMeshSubscriptionStatus *EventMeshSubscriptionStatus `json:"emsSubscriptionStatus,omitempty"`

	// Types lists the consumer of each event type.
	// +optional
	Types []JetStreamType `json:"types,omitempty"`

	// EventMeshTypes is not used by NATS.
	// +optional
	EventMeshTypes []EventMeshType `json:"emsTypes,omitempty"`
}

// JetStreamType is an event type with its consumer.
type JetStreamType struct {
	// OriginalType is the type as written in the spec.
	OriginalType string `json:"originalType"`
	// ConsumerName identifies the type of this Subscription in the backend.
	// +optional
	ConsumerName string `json:"consumerName,omitempty"`
}

// EventMeshType is not used by NATS.
type EventMeshType struct {
	// OriginalType is the type as written in the spec.
	OriginalType string `json:"originalType"`
	// EventMeshType is the name of the type in that backend.
	EventMeshType string `json:"eventMeshType"`
}

// EventMeshSubscriptionStatus is not used by NATS.
type EventMeshSubscriptionStatus struct {
	// Status is the state of the subscription in that backend.
	// +optional
	Status string `json:"status,omitempty"`
	// StatusReason explains Status.
	// +optional
	StatusReason string `json:"statusReason,omitempty"`
	// LastSuccessfulDelivery is the time of the last success.
	// +optional
	LastSuccessfulDelivery string `json:"lastSuccessfulDelivery,omitempty"`
	// LastFailedDelivery is the time of the last failure.
	// +optional
	LastFailedDelivery string `json:"lastFailedDelivery,omitempty"`
	// LastFailedDeliveryReason explains the last failure.
	// +optional
	LastFailedDeliveryReason string `json:"lastFailedDeliveryReason,omitempty"`
}

// Condition is one aspect of the state of a Subscription. It is not a
// metav1.Condition: types and reasons are sentences.
type Condition struct {
	// Type is the aspect.
	// +optional
	Type ConditionType `json:"type,omitempty"`
	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`
	// LastTransitionTime is the time when status, reason or message last changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is a short cause.
	// +optional
	Reason ConditionReason `json:"reason,omitempty"`
	// Message describes the cause for users.
	// +optional
	Message string `json:"message,omitempty"`
}

// ConditionType is an aspect of the state of a Subscription.
type ConditionType string

// A healthy Subscription has the first two, in this order, the third if its dead letters have a sink, and then Ready.
// The fourth is only present when it is False.
const (
	// ConditionSpecValid reports whether the spec is valid.
	ConditionSpecValid ConditionType = "Subscription spec valid"
	// ConditionActive reports whether the backend has a consumer for the Subscription.
	ConditionActive ConditionType = "Subscription active"
	// ConditionDeadLetterSink reports whether dead letters can be delivered to their sink. Nothing else depends on it.
	ConditionDeadLetterSink ConditionType = "Dead letter sink active"
	// ConditionDeadLettersKept reports whether dead letters were deleted before their maximum age. Nothing else depends
	// on it.
	ConditionDeadLettersKept ConditionType = "Dead letters kept"
	// ConditionReady reports, in a form that tools support, whether the spec is valid and the backend has a consumer
	// for the Subscription.
	ConditionReady ConditionType = "Ready"
	// ConditionStalled is True when a user has to act, and absent otherwise.
	ConditionStalled ConditionType = "Stalled"
)

// ConditionReason is the reason for the status of a condition.
type ConditionReason string

// Reasons of the conditions.
const (
	// ReasonSpecValid accompanies ConditionSpecValid=True.
	ReasonSpecValid ConditionReason = "Subscription spec has no validation errors"
	// ReasonSpecInvalid accompanies ConditionSpecValid=False.
	ReasonSpecInvalid ConditionReason = "Subscription spec has validation errors"
	// ReasonActive accompanies ConditionActive=True.
	ReasonActive ConditionReason = "NATS Subscription active"
	// ReasonNotActive accompanies ConditionActive=False.
	ReasonNotActive ConditionReason = "NATS Subscription not active"
	// ReasonDeadLetterSink accompanies ConditionDeadLetterSink=True.
	ReasonDeadLetterSink ConditionReason = "Dead letters are delivered"
	// ReasonNoDeadLetterSink accompanies ConditionDeadLetterSink=False.
	ReasonNoDeadLetterSink ConditionReason = "Dead letters wait"
	// ReasonDeadLettersDropped accompanies ConditionDeadLettersKept=False.
	ReasonDeadLettersDropped ConditionReason = "Oldest dead letters dropped"
	// ReasonServing accompanies ConditionReady=True.
	ReasonServing ConditionReason = "Active"
	// ReasonPaused accompanies ConditionReady=True of a paused Subscription.
	ReasonPaused ConditionReason = "Paused"
	// ReasonInvalid accompanies ConditionReady=False and ConditionStalled=True: the spec has to be corrected.
	ReasonInvalid ConditionReason = "SpecInvalid"
	// ReasonSinkMissing accompanies ConditionReady=False: the Service that the sink names is missing or not usable.
	ReasonSinkMissing ConditionReason = "SinkMissing"
	// ReasonInactive accompanies ConditionReady=False, and ConditionStalled=True if NATS rejects the consumer
	// permanently.
	ReasonInactive ConditionReason = "NotActive"
)
