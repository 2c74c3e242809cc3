package v1alpha2

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubscriptionStatus is what the controller found and did.
type SubscriptionStatus struct {
	// ObservedGeneration is the generation that the rest is about, and -1 before the controller has seen any.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions explain Ready.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	// Ready is true when events are being delivered.
	Ready bool `json:"ready"`

	// Types are the event types before and after cleaning.
	Types []EventType `json:"types"`

	// Backend is what the messaging backend keeps for the Subscription.
	// +optional
	Backend Backend `json:"backend,omitempty"`

	// DeadLetters is how many events are kept that could not be delivered.
	// +optional
	DeadLetters int64 `json:"deadLetters,omitempty"`
}

// MarshalJSON writes nil Types as an empty list: the schema requires the list
// and refuses null.
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
	// CleanType is the type without the characters that subjects cannot have.
	CleanType string `json:"cleanType"`
}

// Backend is what the messaging backend keeps for a Subscription. Only Types
// is filled for NATS; the other fields exist so that a status that was written
// for another backend survives an update.
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

	// Types name the consumer of each event type.
	// +optional
	Types []JetStreamType `json:"types,omitempty"`

	// EventMeshTypes is not used by NATS.
	// +optional
	EventMeshTypes []EventMeshType `json:"emsTypes,omitempty"`
}

// JetStreamType is an event type and the consumer that carries it.
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
	// LastTransitionTime is when status, reason or message changed last.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	// Reason is a short cause.
	// +optional
	Reason ConditionReason `json:"reason,omitempty"`
	// Message is the cause for people.
	// +optional
	Message string `json:"message,omitempty"`
}
