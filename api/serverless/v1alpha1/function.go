package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "serverless.kyma-project.io", Version: "v1alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{}, &GitRepository{}, &GitRepositoryList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Function is source code that is run on Kubernetes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=all,shortName={fn,fns}
// +kubebuilder:deprecatedversion:warning="serverless.kyma-project.io/v1alpha1 Function is deprecated: write v1alpha2, as rouse convert does"
// +kubebuilder:printcolumn:name="Configured",type="string",JSONPath=".status.conditions[?(@.type=='ConfigurationReady')].status"
// +kubebuilder:printcolumn:name="Built",type="string",JSONPath=".status.conditions[?(@.type=='BuildReady')].status"
// +kubebuilder:printcolumn:name="Running",type="string",JSONPath=".status.conditions[?(@.type=='Running')].status"
// +kubebuilder:printcolumn:name="Runtime",type="string",JSONPath=".spec.runtime"
// +kubebuilder:printcolumn:name="Version",type="integer",JSONPath=".metadata.generation"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec FunctionSpec `json:"spec,omitempty"`
	// +optional
	Status FunctionStatus `json:"status,omitempty"`
}

// FunctionList is a list of Functions.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Function `json:"items"`
}

// SourceTypeGit is the type of a Function whose source is in Git.
const SourceTypeGit = "git"

// FunctionSpec is the source of a Function and the configuration of its pods.
type FunctionSpec struct {
	// Source is the code, or with the type git the name of a GitRepository.
	Source string `json:"source"`

	// Deps are the dependencies of code in the manifest.
	// +optional
	Deps string `json:"deps,omitempty"`

	// Runtime is the language and its version.
	// +optional
	Runtime string `json:"runtime,omitempty"`

	// RuntimeImageOverride runs the source on another image than the runtime's.
	// +optional
	RuntimeImageOverride string `json:"runtimeImageOverride,omitempty"`

	// Env are environment variables for the code.
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// Resources are the requests and limits of the pods.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// BuildResources are the requests and limits of the Jobs that build images.
	// +optional
	BuildResources *corev1.ResourceRequirements `json:"buildResources,omitempty"`

	// MinReplicas is the number of pods of an idle Function.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is the maximum number of pods.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// Labels are added to the pods.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Type is the type of Source: git, or empty for code.
	// +optional
	Type string `json:"type,omitempty"`

	Repository `json:",inline"`
}

// Repository is the location of the code within a Git repository.
type Repository struct {
	// BaseDir is the directory of the code.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`

	// Reference is a branch, a tag or a commit.
	// +optional
	Reference string `json:"reference,omitempty"`
}

// FunctionStatus is the state of a Function as observed by the controller.
type FunctionStatus struct {
	// Conditions are the aspects of the Function's state.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	Repository `json:",inline"`

	// Commit is the commit that the reference pointed to.
	// +optional
	Commit string `json:"commit,omitempty"`

	// Source is the name of the GitRepository.
	// +optional
	Source string `json:"source,omitempty"`

	// Runtime is the runtime that runs.
	// +optional
	Runtime string `json:"runtime,omitempty"`

	// RuntimeImageOverride is the value in the spec.
	// +optional
	RuntimeImageOverride string `json:"runtimeImageOverride,omitempty"`

	// V1alpha2 is the whole status. It is stored in the status because an annotation could be written by clients that
	// may not write a status.
	// +optional
	V1alpha2 *v1alpha2.FunctionStatus `json:"v1alpha2,omitempty"`
}

// Condition is one aspect of a Function's state.
type Condition struct {
	// Type is the type of the condition.
	// +optional
	Type string `json:"type,omitempty"`

	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`

	// LastTransitionTime is the time when the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// Reason is a code for the status.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message describes the status for users.
	// +optional
	Message string `json:"message,omitempty"`
}

// GitRepository is a source of code, for Functions of this version that name it.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="serverless.kyma-project.io/v1alpha1 GitRepository is deprecated: write the repository into the Function, as rouse convert does"
// +kubebuilder:printcolumn:name="URL",type="string",JSONPath=".spec.url"
// +kubebuilder:printcolumn:name="Auth",type="string",JSONPath=".spec.auth.type"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type GitRepository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GitRepositorySpec `json:"spec,omitempty"`
}

// GitRepositoryList is a list of GitRepositories.
//
// +kubebuilder:object:root=true
type GitRepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GitRepository `json:"items"`
}

// GitRepositorySpec is the address of the repository with its credentials.
type GitRepositorySpec struct {
	// URL is the URL of the repository, for HTTP or SSH.
	URL string `json:"url"`

	// Auth refers to the credentials for the repository.
	// +optional
	Auth *RepositoryAuth `json:"auth,omitempty"`
}

// RepositoryAuth refers to the credentials for a repository.
type RepositoryAuth struct {
	// Type is the type of the credentials.
	Type v1alpha2.RepositoryAuthType `json:"type"`

	// SecretName is the name of the Secret with the credentials.
	SecretName string `json:"secretName"`
}

// Labels and annotations that represent fields of the other version.
const (
	// LabelFunctionPreset names the profile of the pods.
	LabelFunctionPreset = "serverless.kyma-project.io/function-resources-preset"
	// LabelBuildPreset names the profile of the builds.
	LabelBuildPreset = "serverless.kyma-project.io/build-resources-preset"
	// AnnotationSecretMounts contains the secretMounts of v1alpha2, as JSON.
	AnnotationSecretMounts = "serverless.kyma-project.io/v1alpha1SecretMounts"
	// AnnotationGitRepository is set on Functions of v1alpha2, and names their GitRepository in v1alpha1.
	AnnotationGitRepository = "serverless.kyma-project.io/v1alpha1GitRepoName"

	// AnnotationNewFields is set on Functions of v1alpha1, and contains the fields of v1alpha2 that v1alpha1 cannot
	// represent, as JSON.
	AnnotationNewFields = "rouse.run/v1alpha2-fields"
	// AnnotationOldFields is set on Functions of v1alpha2, and contains the fields of v1alpha1 that v1alpha2 cannot
	// represent, as JSON.
	AnnotationOldFields = "rouse.run/v1alpha1-fields"
)
