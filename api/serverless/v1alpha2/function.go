package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "serverless.kyma-project.io", Version: "v1alpha2"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Function{}, &FunctionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Function is source code that is run on Kubernetes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.podSelector
// +kubebuilder:resource:categories=all,shortName={fn,fns}
// +kubebuilder:printcolumn:name="Configured",type="string",JSONPath=".status.conditions[?(@.type=='ConfigurationReady')].status"
// +kubebuilder:printcolumn:name="Built",type="string",JSONPath=".status.conditions[?(@.type=='BuildReady')].status"
// +kubebuilder:printcolumn:name="Running",type="string",JSONPath=".status.conditions[?(@.type=='Running')].status"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="Runtime",type="string",JSONPath=".spec.runtime"
// +kubebuilder:printcolumn:name="Version",type="integer",JSONPath=".metadata.generation"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec FunctionSpec `json:"spec"`
	// +default={"observedGeneration":-1}
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

// Runtime is a language and its version.
type Runtime string

// The supported runtimes.
const (
	// RuntimeNodeJS20 is deprecated: its Node.js gets no more fixes.
	RuntimeNodeJS20 Runtime = "nodejs20"
	// RuntimeNodeJS22 calls main(event, context) on Node.js 22.
	RuntimeNodeJS22 Runtime = "nodejs22"
	// RuntimeNodeJS24 calls main(event, context) on Node.js 24.
	RuntimeNodeJS24 Runtime = "nodejs24"
	// RuntimeNodeJS26 calls main(req, res) on Node.js 26.
	RuntimeNodeJS26 Runtime = "nodejs26"
	// RuntimePython312 calls main(event, context) on Python 3.12.
	RuntimePython312 Runtime = "python312"
	// RuntimePython314 calls main() on Python 3.14.
	RuntimePython314 Runtime = "python314"
	// RuntimeGo126 is Go 1.26, compiled to a binary.
	RuntimeGo126 Runtime = "go126"
)

// FunctionSpec is the source of a Function and the configuration of its pods.
type FunctionSpec struct {
	// Runtime is the language and its version.
	// +kubebuilder:validation:Enum=nodejs20;nodejs22;nodejs24;nodejs26;python312;python314;go126
	Runtime Runtime `json:"runtime"`

	// RuntimeImageOverride runs the source on another image than the runtime's. The image must contain a server for the
	// handler, which listens on port 8080 and serves /healthz: either a runtime of Rouse, from whose image it is built,
	// or a server that follows Kyma's contract for such images. The annotation rouse.run/runtime-contract (rouse or
	// kyma) declares the contract; the default is Kyma's, unless the image comes from the repository of one of the
	// installation's runtimes.
	// +optional
	RuntimeImageOverride string `json:"runtimeImageOverride,omitempty"`

	// Source is the origin of the code.
	// +kubebuilder:validation:XValidation:message="Use GitRepository or Inline source",rule="has(self.inline) != has(self.gitRepository)"
	Source Source `json:"source"`

	// PodSecurityContext overrides parts of the pod's security settings.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// ContainerSecurityContext overrides parts of the container's security settings.
	// +optional
	ContainerSecurityContext *corev1.SecurityContext `json:"containerSecurityContext,omitempty"`

	// Env are environment variables for the code.
	// +kubebuilder:validation:XValidation:message="Following envs are reserved and cannot be used: ['FUNC_RUNTIME','FUNC_HANDLER','FUNC_PORT','FUNC_HANDLER_SOURCE','FUNC_HANDLER_DEPENDENCIES','MOD_NAME','NODE_PATH','PYTHONPATH']",rule="self.all(e, !(e.name in ['FUNC_RUNTIME','FUNC_HANDLER','FUNC_PORT','FUNC_HANDLER_SOURCE','FUNC_HANDLER_DEPENDENCIES','MOD_NAME','NODE_PATH','PYTHONPATH']))"
	// +optional
	Env []corev1.EnvVar `json:"env,omitempty"`

	// ResourceConfiguration configures the resources of pods and builds.
	// +optional
	ResourceConfiguration *ResourceConfiguration `json:"resourceConfiguration,omitempty"`

	// ScaleConfig scales the number of pods by the backlog of events.
	// +kubebuilder:validation:XValidation:message="minReplicas should be less than or equal maxReplicas",rule="self.minReplicas <= self.maxReplicas"
	// +optional
	ScaleConfig *ScaleConfig `json:"scaleConfig,omitempty"`

	// Replicas is the number of pods of a Function without ScaleConfig. The scale subresource writes it.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Template is deprecated: Labels and Annotations replace it.
	// +kubebuilder:validation:XValidation:message="Not supported: Use spec.labels and spec.annotations to label and/or annotate Function's Pods.",rule="!has(self.labels) && !has(self.annotations)"
	// +optional
	Template *Template `json:"template,omitempty"`

	// SecretMounts are Secrets that are mounted as files.
	// +optional
	SecretMounts []SecretMount `json:"secretMounts,omitempty"`

	// Labels are added to the pods. The limit of 63 applies to the whole key.
	// +kubebuilder:validation:XValidation:message="Labels has key starting with serverless.kyma-project.io/ which is not allowed",rule="self.all(key, !key.startsWith('serverless.kyma-project.io/'))"
	// +kubebuilder:validation:XValidation:message="Label value cannot be longer than 63",rule="self.all(key, size(key) < 64)"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are added to the pods.
	// +kubebuilder:validation:XValidation:message="Annotations has key starting with serverless.kyma-project.io/ which is not allowed",rule="self.all(key, !key.startsWith('serverless.kyma-project.io/'))"
	// +kubebuilder:validation:XValidation:message="Annotations has key proxy.istio.io/config which is not allowed",rule="!('proxy.istio.io/config' in self)"
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ResourceConfiguration configures resources.
type ResourceConfiguration struct {
	// Build applies to the Jobs that build images.
	// +kubebuilder:validation:XValidation:message="Use profile or resources",rule="has(self.profile) != has(self.resources)"
	// +kubebuilder:validation:XValidation:message="Invalid profile, please use one of: ['local-dev','slow','normal','fast']",rule="!has(self.profile) || self.profile in ['local-dev','slow','normal','fast']"
	// +optional
	Build *ResourceRequirements `json:"build,omitempty"`

	// Function applies to the pods that run the code.
	// +kubebuilder:validation:XValidation:message="Use profile or resources",rule="has(self.profile) != has(self.resources)"
	// +kubebuilder:validation:XValidation:message="Invalid profile, please use one of: ['XS','S','M','L','XL']",rule="!has(self.profile) || self.profile in ['XS','S','M','L','XL']"
	// +optional
	Function *ResourceRequirements `json:"function,omitempty"`
}

// ResourceRequirements are either a profile or requests and limits.
type ResourceRequirements struct {
	// Profile is the name of a set of requests and limits.
	// +optional
	Profile string `json:"profile,omitempty"`

	// Resources are the requests and limits.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ScaleConfig bounds the number of pods.
type ScaleConfig struct {
	// MinReplicas is the number of pods of an idle Function. With 0 it sleeps until an event wakes it.
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas"`

	// MaxReplicas is the maximum number of pods.
	// +kubebuilder:validation:Minimum=1
	MaxReplicas *int32 `json:"maxReplicas"`
}

// Template is deprecated. It exists so that an empty one is still accepted.
type Template struct {
	// Labels must not be set.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations must not be set.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// SecretMount mounts a Secret as files.
type SecretMount struct {
	// SecretName is the name of a Secret in the Function's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// MountPath is the directory of the files.
	// +kubebuilder:validation:MinLength=1
	MountPath string `json:"mountPath"`
}

// Source is the origin of the code: exactly one of its fields is set.
type Source struct {
	// GitRepository fetches the code.
	// +optional
	GitRepository *GitRepositorySource `json:"gitRepository,omitempty"`

	// Inline contains the code.
	// +optional
	Inline *InlineSource `json:"inline,omitempty"`
}

// InlineSource is code in the manifest.
type InlineSource struct {
	// Source is the content of the single source file.
	// +kubebuilder:validation:MinLength=1
	Source string `json:"source"`

	// Dependencies is a package.json, a requirements.txt or a go.mod.
	// +optional
	Dependencies string `json:"dependencies,omitempty"`
}

// GitRepositorySource is code in a Git repository.
//
// +kubebuilder:validation:XValidation:message="BaseDir is required and cannot be empty",rule="has(self.baseDir) && self.baseDir.trim().size() != 0"
// +kubebuilder:validation:XValidation:message="Reference is required and cannot be empty",rule="has(self.reference) && self.reference.trim().size() != 0"
type GitRepositorySource struct {
	// URL is the URL of the repository, for HTTP or SSH.
	URL string `json:"url"`

	// Auth refers to the credentials for the repository.
	// +optional
	Auth *RepositoryAuth `json:"auth,omitempty"`

	// BaseDir is the directory of the code within the repository.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`

	// Reference is a branch, a tag or a commit.
	// +optional
	Reference string `json:"reference,omitempty"`
}

// RepositoryAuth refers to the credentials for a repository.
type RepositoryAuth struct {
	// Type is the type of the credentials.
	Type RepositoryAuthType `json:"type"`

	// SecretName is the name of the Secret with the credentials.
	// +kubebuilder:validation:XValidation:message="SecretName is required and cannot be empty",rule="self.trim().size() != 0"
	SecretName string `json:"secretName"`
}

// RepositoryAuthType is a kind of credentials.
//
// +kubebuilder:validation:Enum=basic;key
type RepositoryAuthType string

// The kinds of credentials.
const (
	// RepositoryAuthBasic is a user name with a password or a token.
	RepositoryAuthBasic RepositoryAuthType = "basic"
	// RepositoryAuthSSHKey is a private key for SSH.
	RepositoryAuthSSHKey RepositoryAuthType = "key"
)
