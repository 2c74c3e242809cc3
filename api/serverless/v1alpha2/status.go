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
	Replicas int32 `json:"replicas,omitempty"`

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
