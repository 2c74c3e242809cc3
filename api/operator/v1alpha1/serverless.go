package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Serverless asks for the Function controller in its namespace, and configures it. One of a cluster is served.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=serverlesses,categories={kyma-modules,kyma-serverless}
// +kubebuilder:printcolumn:name="Configured",type="string",JSONPath=".status.conditions[?(@.type=='Configured')].status"
// +kubebuilder:printcolumn:name="Installed",type="string",JSONPath=".status.conditions[?(@.type=='Installed')].status"
// +kubebuilder:printcolumn:name="generation",type="integer",JSONPath=".metadata.generation"
// +kubebuilder:printcolumn:name="age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="state",type="string",JSONPath=".status.state"
type Serverless struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Spec may be null: a server-side apply leaves that when it takes the last field out.
	// +nullable
	Spec ServerlessSpec `json:"spec"`

	// +kubebuilder:default:={"observedGeneration":-1,"served":"False"}
	Status ServerlessStatus `json:"status,omitempty"`
}

// ServerlessList is a list of Serverlesses.
//
// +kubebuilder:object:root=true
type ServerlessList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Serverless `json:"items"`
}

// ServerlessSpec is how Functions are to be served. What it leaves out follows from the installation and from the cluster.
type ServerlessSpec struct {
	// Tracing is where Functions send traces. An empty endpoint switches it off. Without it a Service telemetry-otlp-traces is
	// looked for.
	// +optional
	Tracing *Endpoint `json:"tracing,omitempty"`

	// Eventing is where Functions publish events. Without it: at this installation's eventbridge.
	// +optional
	Eventing *Endpoint `json:"eventing,omitempty"`

	// FunctionRequeueDuration is how often Functions that run well are looked at without a reason, such as 5m.
	// +optional
	FunctionRequeueDuration string `json:"functionRequeueDuration,omitempty"`

	// HealthzLivenessTimeout is how long the Function controller may take to answer that it is alive, such as 10s.
	// +optional
	HealthzLivenessTimeout string `json:"healthzLivenessTimeout,omitempty"`

	// DefaultRuntimePodPreset is the resource profile of Functions that name none: XS, S, M, L or XL. Without it XS in a cluster
	// with up to two nodes, and L in a larger one.
	// +optional
	DefaultRuntimePodPreset string `json:"defaultRuntimePodPreset,omitempty"`

	// LogLevel of the Function controller: debug, info, warn, error or fatal.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`

	// LogFormat of the Function controller: json or console.
	// +optional
	LogFormat string `json:"logFormat,omitempty"`

	// DockerRegistry is accepted and ignored: the installation says where the images of Functions are kept.
	// +optional
	DockerRegistry *DockerRegistry `json:"dockerRegistry,omitempty"`

	// TargetCPUUtilizationPercentage is accepted and ignored.
	// +optional
	TargetCPUUtilizationPercentage string `json:"targetCPUUtilizationPercentage,omitempty"`

	// FunctionBuildExecutorArgs is accepted and ignored.
	// +optional
	FunctionBuildExecutorArgs string `json:"functionBuildExecutorArgs,omitempty"`

	// FunctionBuildMaxSimultaneousJobs is accepted and ignored: the installation says it.
	// +optional
	FunctionBuildMaxSimultaneousJobs string `json:"functionBuildMaxSimultaneousJobs,omitempty"`

	// DefaultBuildJobPreset is accepted and ignored: the installation says it.
	// +optional
	DefaultBuildJobPreset string `json:"defaultBuildJobPreset,omitempty"`

	// EnableNetworkPolicies is accepted and ignored: the installation says it.
	// +optional
	EnableNetworkPolicies *bool `json:"enableNetworkPolicies,omitempty"`
}

// Endpoint is a URL.
type Endpoint struct {
	Endpoint string `json:"endpoint"`
}

// DockerRegistry is accepted and ignored.
type DockerRegistry struct {
	// +optional
	EnableInternal *bool `json:"enableInternal,omitempty"`

	// +optional
	SecretName *string `json:"secretName,omitempty"`
}
