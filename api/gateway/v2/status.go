package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIRuleStatus is what the controller found and did.
type APIRuleStatus struct {
	// LastProcessedTime is when the controller last looked at the APIRule.
	// +optional
	LastProcessedTime *metav1.Time `json:"lastProcessedTime,omitempty"`

	// State of the APIRule.
	// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;Warning
	State State `json:"state"`

	// Description explains the state.
	// +optional
	Description string `json:"description,omitempty"`

	// ObservedGeneration is the generation that the rest is about, and -1 before the controller has seen any.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions say the same to tools that know nothing of APIRules: Ready, and Stalled when the user has to act.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// State is what became of an APIRule.
type State string

// The states.
const (
	// StateReady means that the rules hold.
	StateReady State = "Ready"
	// StateWarning means that the user has something to do.
	StateWarning State = "Warning"
	// StateError means that the rules do not hold.
	StateError State = "Error"
	// StateProcessing is that of an APIRule that the controller has not seen yet.
	StateProcessing State = "Processing"
	// StateDeleting is accepted; the controller does not set it.
	StateDeleting State = "Deleting"
)
