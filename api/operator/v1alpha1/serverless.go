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

// Serverless requests and configures the Function controller in its namespace. Only one in a cluster is served.
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

	// Spec may be null: a server-side apply that removes the last field leaves null.
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

// ServerlessSpec configures how Functions are served. Defaults come from the installation and the cluster.
type ServerlessSpec struct {
	// Tracing is the endpoint to which Functions send traces. An empty endpoint disables traces. By default a Service
	// telemetry-otlp-traces is used, if there is one.
	// +optional
	Tracing *Endpoint `json:"tracing,omitempty"`

	// Eventing is the endpoint to which Functions publish events. The default is this installation's eventbridge.
	// +optional
	Eventing *Endpoint `json:"eventing,omitempty"`

	// FunctionRequeueDuration is the interval at which unchanged Functions are reconciled, such as 5m.
	// +optional
	FunctionRequeueDuration string `json:"functionRequeueDuration,omitempty"`

	// HealthzLivenessTimeout is the timeout of the Function controller's liveness probe, such as 10s.
	// +optional
	HealthzLivenessTimeout string `json:"healthzLivenessTimeout,omitempty"`

	// DefaultRuntimePodPreset is the resource profile of Functions that name none: XS, S, M, L or XL. The default is XS
	// in a cluster with up to two nodes, and L in a larger one.
	// +optional
	DefaultRuntimePodPreset string `json:"defaultRuntimePodPreset,omitempty"`

	// LogLevel is the log level of the Function controller: debug, info, warn, error or fatal.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`

	// LogFormat is the log format of the Function controller: json or console.
	// +optional
	LogFormat string `json:"logFormat,omitempty"`

	// DockerRegistry is accepted and ignored: the installation determines the registry of Functions' images.
	// +optional
	DockerRegistry *DockerRegistry `json:"dockerRegistry,omitempty"`

	// TargetCPUUtilizationPercentage is accepted and ignored.
	// +optional
	TargetCPUUtilizationPercentage string `json:"targetCPUUtilizationPercentage,omitempty"`

	// FunctionBuildExecutorArgs is accepted and ignored.
	// +optional
	FunctionBuildExecutorArgs string `json:"functionBuildExecutorArgs,omitempty"`

	// FunctionBuildMaxSimultaneousJobs is accepted and ignored: the installation determines it.
	// +optional
	FunctionBuildMaxSimultaneousJobs string `json:"functionBuildMaxSimultaneousJobs,omitempty"`

	// DefaultBuildJobPreset is accepted and ignored: the installation determines it.
	// +optional
	DefaultBuildJobPreset string `json:"defaultBuildJobPreset,omitempty"`

	// EnableNetworkPolicies is accepted and ignored: the installation determines it.
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

// ServerlessStatus is the state of a Serverless as observed by the operator.
type ServerlessStatus struct {
	// ObservedGeneration is the generation that the status refers to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// EventingEndpoint is the effective endpoint for events.
	// +optional
	EventingEndpoint string `json:"eventingEndpoint,omitempty"`

	// TracingEndpoint is the effective endpoint for traces; empty: none.
	// +optional
	TracingEndpoint string `json:"tracingEndpoint,omitempty"`

	// FunctionRequeueDuration is the effective value; empty: the Function controller's default.
	// +optional
	FunctionRequeueDuration string `json:"functionRequeueDuration,omitempty"`

	// HealthzLivenessTimeout is the effective value; empty: the Function controller's default.
	// +optional
	HealthzLivenessTimeout string `json:"healthzLivenessTimeout,omitempty"`

	// DefaultRuntimePodPreset is the effective value.
	// +optional
	DefaultRuntimePodPreset string `json:"defaultRuntimePodPreset,omitempty"`

	// LogLevel is the effective value.
	// +optional
	LogLevel string `json:"logLevel,omitempty"`

	// LogFormat is the effective value.
	// +optional
	LogFormat string `json:"logFormat,omitempty"`

	// NetworkPoliciesEnabled reports whether NetworkPolicies restrict the Function controller.
	// +kubebuilder:validation:Enum=True;False
	// +optional
	NetworkPoliciesEnabled string `json:"networkPoliciesEnabled,omitempty"`

	// State summarizes the conditions.
	// +kubebuilder:validation:Enum=Processing;Deleting;Ready;Error;Warning
	// +optional
	State State `json:"state,omitempty"`

	// Served is True for the only Serverless of the cluster that has an effect.
	// +kubebuilder:validation:Enum=True;False
	Served Served `json:"served"`

	// Conditions are the aspects of the state.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// TargetCPUUtilizationPercentage is no longer set.
	// +optional
	TargetCPUUtilizationPercentage string `json:"targetCPUUtilizationPercentage,omitempty"`

	// FunctionBuildExecutorArgs is no longer set.
	// +optional
	FunctionBuildExecutorArgs string `json:"functionBuildExecutorArgs,omitempty"`

	// FunctionBuildMaxSimultaneousJobs is no longer set.
	// +optional
	FunctionBuildMaxSimultaneousJobs string `json:"functionBuildMaxSimultaneousJobs,omitempty"`

	// DefaultBuildJobPreset is no longer set.
	// +optional
	DefaultBuildJobPreset string `json:"defaultBuildJobPreset,omitempty"`

	// DockerRegistry is no longer set.
	// +optional
	DockerRegistry string `json:"dockerRegistry,omitempty"`
}

// State summarizes the state of a Serverless.
type State string

// The states.
const (
	StateProcessing State = "Processing"
	StateDeleting   State = "Deleting"
	StateReady      State = "Ready"
	StateError      State = "Error"
	StateWarning    State = "Warning"
)

// Served reports whether a Serverless has an effect.
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
	// ReasonConfigured accompanies True.
	ReasonConfigured = "Configured"
	// ReasonConfigurationErr accompanies False: the message names the field.
	ReasonConfigurationErr = "ConfigurationErr"
	// ReasonServerlessDuplicated accompanies False: another Serverless is served.
	ReasonServerlessDuplicated = "ServerlessDuplicated"
)

// Reasons of ConditionInstalled.
const (
	// ReasonInstallation accompanies Unknown.
	ReasonInstallation = "Installation"
	// ReasonInstalled accompanies True.
	ReasonInstalled = "Installed"
	// ReasonInstallationErr accompanies False.
	ReasonInstallationErr = "InstallationErr"
)

// ReasonDeploymentReplicaFailure accompanies True of ConditionDeploymentFailure.
const ReasonDeploymentReplicaFailure = "DeploymentReplicaFailure"

// Reasons of ConditionDeleted.
const (
	// ReasonDeletion accompanies Unknown.
	ReasonDeletion = "Deletion"
	// ReasonDeletionErr accompanies False: something prevents the removal.
	ReasonDeletionErr = "DeletionErr"
	// ReasonDeleted accompanies True.
	ReasonDeleted = "Deleted"
)

// ReasonConfiguration is the reason of Events about effective values.
const ReasonConfiguration = "Configuration"
