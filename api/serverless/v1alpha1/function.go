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

// FunctionSpec says what runs and how.
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

	// Resources are requests and limits of the pods.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// BuildResources are those of the Jobs that build images.
	// +optional
	BuildResources *corev1.ResourceRequirements `json:"buildResources,omitempty"`

	// MinReplicas is the number of pods of an idle Function.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is the number of pods that is never exceeded.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// Labels are put on the pods.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Type says what Source is: git, or when it is empty the code itself.
	// +optional
	Type string `json:"type,omitempty"`

	Repository `json:",inline"`
}

// Repository is the place of the code within a Git repository.
type Repository struct {
	// BaseDir is the directory of the code.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`

	// Reference is a branch, a tag or a commit.
	// +optional
	Reference string `json:"reference,omitempty"`
}

// FunctionStatus is what the controller found and did.
type FunctionStatus struct {
	// Conditions are the aspects of the Function's state.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`

	Repository `json:",inline"`

	// Commit is what the reference stood for.
	// +optional
	Commit string `json:"commit,omitempty"`

	// Source is the name of the GitRepository.
	// +optional
	Source string `json:"source,omitempty"`

	// Runtime is the runtime that runs.
	// +optional
	Runtime string `json:"runtime,omitempty"`

	// RuntimeImageOverride is that of the spec.
	// +optional
	RuntimeImageOverride string `json:"runtimeImageOverride,omitempty"`

	// V1alpha2 is the whole status. In the status, as an annotation could be written by who may not write a status.
	// +optional
	V1alpha2 *v1alpha2.FunctionStatus `json:"v1alpha2,omitempty"`
}

// Condition is one aspect of a Function's state.
type Condition struct {
	// Type of the aspect.
	// +optional
	Type string `json:"type,omitempty"`

	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`

	// LastTransitionTime is when the status changed.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`

	// Reason is a word for the status.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message is for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// GitRepository is a place of code, for Functions of this version that name it.
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

// GitRepositorySpec says where the repository is.
type GitRepositorySpec struct {
	// URL of the repository, for HTTP or SSH.
	URL string `json:"url"`

	// Auth is how to log in at the repository.
	// +optional
	Auth *RepositoryAuth `json:"auth,omitempty"`
}

// RepositoryAuth is how to log in at a repository.
type RepositoryAuth struct {
	// Type of the credentials.
	Type v1alpha2.RepositoryAuthType `json:"type"`

	// SecretName is the name of the Secret with the credentials.
	SecretName string `json:"secretName"`
}

// Labels and annotations by which one version says what is a field of the other.
const (
	// LabelFunctionPreset names the profile of the pods.
	LabelFunctionPreset = "serverless.kyma-project.io/function-resources-preset"
	// LabelBuildPreset names the profile of the builds.
	LabelBuildPreset = "serverless.kyma-project.io/build-resources-preset"
	// AnnotationSecretMounts has the secretMounts of v1alpha2, as JSON.
	AnnotationSecretMounts = "serverless.kyma-project.io/v1alpha1SecretMounts"
	// AnnotationGitRepository is on Functions of v1alpha2, and names the GitRepository that they were made with.
	AnnotationGitRepository = "serverless.kyma-project.io/v1alpha1GitRepoName"

	// AnnotationNewFields is on Functions of v1alpha1, and has what v1alpha2 said in another way than can be said here, as JSON.
	AnnotationNewFields = "rouse.run/v1alpha2-fields"
	// AnnotationOldFields is the same the other way, on Functions of v1alpha2.
	AnnotationOldFields = "rouse.run/v1alpha1-fields"
)
