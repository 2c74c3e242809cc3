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
	// StateProcessing and StateDeleting are accepted; the controller does not set them.
	StateProcessing State = "Processing"
	StateDeleting   State = "Deleting"
)
