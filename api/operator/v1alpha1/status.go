package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServerlessStatus is what the operator found and did.
type ServerlessStatus struct {
	// ObservedGeneration is the generation that the status follows from.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// EventingEndpoint in force.
	// +optional
	EventingEndpoint string `json:"eventingEndpoint,omitempty"`

	// TracingEndpoint in force; empty: none.
	// +optional
	TracingEndpoint string `json:"tracingEndpoint,omitempty"`

	// FunctionRequeueDuration in force; empty: that of the Function controller.
	// +optional
	FunctionRequeueDuration string `json:"functionRequeueDuration,omitempty"`

	// HealthzLivenessTimeout in force; empty: that of the Function controller.
	// +optional
	HealthzLivenessTimeout string `json:"healthzLivenessTimeout,omitempty"`

	// DefaultRuntimePodPreset in force.
	// +optional
	DefaultRuntimePodPreset string `json:"defaultRuntimePodPreset,omitempty"`

	// LogLevel in force.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`

	// LogFormat in force.
	// +optional
	LogFormat string `json:"logFormat,omitempty"`

	// NetworkPoliciesEnabled says whether NetworkPolicies bound the Function controller.
	// +kubebuilder:validation:Enum=True;False
	// +optional
	NetworkPoliciesEnabled string `json:"networkPoliciesEnabled,omitempty"`

	// State sums the conditions up.
	// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;Warning
	// +optional
	State State `json:"state,omitempty"`

	// Served is True for the one Serverless of the cluster that has an effect.
	// +kubebuilder:validation:Enum=True;False
	Served Served `json:"served"`

	// Conditions are the aspects of the state.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// TargetCPUUtilizationPercentage is not set any more.
	// +optional
	TargetCPUUtilizationPercentage string `json:"targetCPUUtilizationPercentage,omitempty"`

	// FunctionBuildExecutorArgs is not set any more.
	// +optional
	FunctionBuildExecutorArgs string `json:"functionBuildExecutorArgs,omitempty"`

	// FunctionBuildMaxSimultaneousJobs is not set any more.
	// +optional
	FunctionBuildMaxSimultaneousJobs string `json:"functionBuildMaxSimultaneousJobs,omitempty"`

	// DefaultBuildJobPreset is not set any more.
	// +optional
	DefaultBuildJobPreset string `json:"defaultBuildJobPreset,omitempty"`

	// DockerRegistry is not set any more.
	// +optional
	DockerRegistry string `json:"dockerRegistry,omitempty"`
}

// State sums up how a Serverless is.
type State string

// The states.
const (
	StateProcessing State = "Processing"
	StateDeleting   State = "Deleting"
	StateReady      State = "Ready"
	StateError      State = "Error"
	StateWarning    State = "Warning"
)

// Served says whether a Serverless has an effect.
type Served string

// The values of Served.
const (
	ServedTrue  Served = "True"
	ServedFalse Served = "False"
)
