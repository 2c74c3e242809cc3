package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FunctionStatus is what the controller found and did. What describes the
// workload is that of the last time the workload was ready.
type FunctionStatus struct {
	// ObservedGeneration is the generation that was looked at last, and -1 before the controller has seen any.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are the aspects of the Function's state.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Runtime is the runtime that runs.
	// +optional
	Runtime Runtime `json:"runtime,omitempty"`

	// RuntimeImage is the image that runs.
	// +optional
	RuntimeImage string `json:"runtimeImage,omitempty"`

	// Replicas is the number of pods.
	// +optional
	Replicas int32 `json:"replicas"`

	// PodSelector selects the pods. The scale subresource shows it.
	// +optional
	PodSelector string `json:"podSelector,omitempty"`

	// FunctionResourceProfile is the name of the profile, or custom.
	// +optional
	FunctionResourceProfile string `json:"functionResourceProfile,omitempty"`

	// ContainerSecurityContext is that of the container that runs the code.
	// +optional
	ContainerSecurityContext *corev1.SecurityContext `json:"containerSecurityContext,omitempty"`

	// PodSecurityContext is that of the pods.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// FunctionAnnotations are the spec's annotations that the pods have, so that
	// one that leaves the spec can be taken off the pods.
	// +optional
	FunctionAnnotations map[string]string `json:"functionAnnotations,omitempty"`

	// GitRepository is the source that runs when it comes from Git.
	// +optional
	GitRepository *GitRepositoryStatus `json:"gitRepository,omitempty"`

	// Build is the image that was built last. It may be newer than what runs.
	// +optional
	Build *BuildStatus `json:"build,omitempty"`

	// Version names the source and the image that run. The annotation
	// rouse.run/rollback-to takes it.
	// +optional
	Version string `json:"version,omitempty"`

	// Commit is deprecated: GitRepository has it.
	// +optional
	Commit string `json:"commit,omitempty"`

	// BaseDir is deprecated: GitRepository has it.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`

	// Reference is deprecated: GitRepository has it.
	// +optional
	Reference string `json:"reference,omitempty"`
}

// BuildStatus is an image that is ready to run.
type BuildStatus struct {
	// Tag names what the image is made of: source, dependencies and runtime.
	Tag string `json:"tag"`

	// Image is what pods pull: registry, repository and digest.
	Image string `json:"image"`
}

// GitRepositoryStatus is the place in a Git repository that runs.
type GitRepositoryStatus struct {
	// URL of the repository.
	URL string `json:"url"`

	// BaseDir is the directory of the code within the repository.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`

	// Reference is the branch, tag or commit of the spec.
	// +optional
	Reference string `json:"reference,omitempty"`

	// Commit is what the reference stood for.
	// +optional
	Commit string `json:"commit,omitempty"`
}

// Condition types of a Function.
const (
	// ConditionConfigurationReady reports whether the spec can be run.
	ConditionConfigurationReady = "ConfigurationReady"
	// ConditionBuildReady reports whether the image with the source and its dependencies is built. A Function that
	// needs no image does not have it.
	ConditionBuildReady = "BuildReady"
	// ConditionRunning reports whether the workload runs, which includes being scaled to zero.
	ConditionRunning = "Running"
	// ConditionScaling reports whether the number of pods follows the events. A Function without scaleConfig does not
	// have it.
	ConditionScaling = "Scaling"
)

// Reasons of ConditionConfigurationReady.
const (
	// ReasonSpecValidated goes with True.
	ReasonSpecValidated = "FunctionSpecValidated"
	// ReasonInvalidSpec goes with False: the user has to correct the spec.
	ReasonInvalidSpec = "InvalidFunctionSpec"
	// ReasonSourceUpdated goes with True: there is a new commit.
	ReasonSourceUpdated = "SourceUpdated"
	// ReasonSourceUpdateFailed goes with False: the repository cannot be read.
	ReasonSourceUpdateFailed = "SourceUpdateFailed"
	// ReasonRolledBack goes with True: an earlier version runs, as requested.
	ReasonRolledBack = "RolledBack"
	// ReasonRollbackFailed goes with False: there is no such version.
	ReasonRollbackFailed = "RollbackFailed"
)

// Reasons of ConditionBuildReady.
const (
	// ReasonBuildQueued goes with Unknown: the build waits for a slot.
	ReasonBuildQueued = "BuildQueued"
	// ReasonJobCreated goes with Unknown.
	ReasonJobCreated = "JobCreated"
	// ReasonJobRunning goes with Unknown.
	ReasonJobRunning = "JobRunning"
	// ReasonJobFinished goes with True.
	ReasonJobFinished = "JobFinished"
	// ReasonJobFailed goes with False: the message contains the reason and the remedy.
	ReasonJobFailed = "JobFailed"
	// ReasonRegistryInvalid goes with False: the registry's Secret cannot be used.
	ReasonRegistryInvalid = "RegistryInvalid"
	// ReasonRegistryUnavailable goes with Unknown: the registry does not answer.
	ReasonRegistryUnavailable = "RegistryUnavailable"
	// ReasonNoRegistry goes with False: every pod installs its own dependencies.
	ReasonNoRegistry = "NoRegistry"
)

// Reasons of ConditionRunning.
const (
	// ReasonDeploymentCreated goes with Unknown.
	ReasonDeploymentCreated = "DeploymentCreated"
	// ReasonDeploymentUpdated goes with Unknown.
	ReasonDeploymentUpdated = "DeploymentUpdated"
	// ReasonDeploymentWaiting goes with Unknown: pods are being replaced.
	ReasonDeploymentWaiting = "DeploymentWaiting"
	// ReasonMinReplicasNotAvailable goes with Unknown: too few pods are ready.
	ReasonMinReplicasNotAvailable = "MinReplicasNotAvailable"
	// ReasonDeploymentReady goes with True.
	ReasonDeploymentReady = "DeploymentReady"
	// ReasonDeploymentFailed goes with False.
	ReasonDeploymentFailed = "DeploymentFailed"
	// ReasonServiceFailed goes with False.
	ReasonServiceFailed = "ServiceFailed"
	// ReasonNetworkPolicyFailed goes with False: without its NetworkPolicy a Function is neither started nor changed.
	ReasonNetworkPolicyFailed = "NetworkPolicyFailed"
	// ReasonHandlerFailed goes with False: the code does not load.
	ReasonHandlerFailed = "HandlerFailed"
)

// Reasons of ConditionScaling.
const (
	// ReasonScaledObjectReady goes with True: KEDA scales the Function.
	ReasonScaledObjectReady = "ScaledObjectReady"
	// ReasonScaledObjectWaiting goes with Unknown: KEDA has not answered yet.
	ReasonScaledObjectWaiting = "ScaledObjectWaiting"
	// ReasonScaledObjectFailed goes with False: KEDA cannot scale the Function.
	ReasonScaledObjectFailed = "ScaledObjectFailed"
	// ReasonAutoscalerReady goes with True: there is no KEDA, and an HPA scales the Function by its events.
	ReasonAutoscalerReady = "AutoscalerReady"
	// ReasonAutoscalerFailed goes with False: that HPA cannot scale the Function.
	ReasonAutoscalerFailed = "AutoscalerFailed"
	// ReasonKedaNotInstalled goes with False: an HPA scales the Function by CPU utilization and never to zero.
	ReasonKedaNotInstalled = "KedaNotInstalled"
)

// ReasonOwnedByOther goes with False of ConditionRunning and ConditionScaling: an object that the Function needs exists
// and belongs to another owner.
const ReasonOwnedByOther = "OwnedByOther"
