package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "operator.kyma-project.io", Version: "v1alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Serverless{}, &ServerlessList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

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

// Finalizer keeps a Serverless until its installation is removed.
const Finalizer = "serverless-operator.kyma-project.io/deletion-hook"

// Condition types of a Serverless.
const (
	// ConditionConfigured reports whether its values are valid.
	ConditionConfigured = "Configured"
	// ConditionInstalled reports whether the Function controller runs.
	ConditionInstalled = "Installed"
	// ConditionDeploymentFailure is True while the Function controller's pods cannot be created, and absent otherwise.
	ConditionDeploymentFailure = "DeploymentFailure"
	// ConditionDeleted reports the progress of the removal.
	ConditionDeleted = "Deleted"
)

// Reasons of ConditionConfigured.
const (
	// ReasonConfigured goes with True.
	ReasonConfigured = "Configured"
	// ReasonConfigurationErr goes with False: the message names the field.
	ReasonConfigurationErr = "ConfigurationErr"
	// ReasonServerlessDuplicated goes with False: another one is served.
	ReasonServerlessDuplicated = "ServerlessDuplicated"
)

// Reasons of ConditionInstalled.
const (
	// ReasonInstallation goes with Unknown.
	ReasonInstallation = "Installation"
	// ReasonInstalled goes with True.
	ReasonInstalled = "Installed"
	// ReasonInstallationErr goes with False.
	ReasonInstallationErr = "InstallationErr"
)

// ReasonDeploymentReplicaFailure goes with True of ConditionDeploymentFailure.
const ReasonDeploymentReplicaFailure = "DeploymentReplicaFailure"

// Reasons of ConditionDeleted.
const (
	// ReasonDeletion goes with Unknown.
	ReasonDeletion = "Deletion"
	// ReasonDeletionErr goes with False: something prevents the removal.
	ReasonDeletionErr = "DeletionErr"
	// ReasonDeleted goes with True.
	ReasonDeleted = "Deleted"
)

// ReasonConfiguration is the reason of Events about effective values.
const ReasonConfiguration = "Configuration"
