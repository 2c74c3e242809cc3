package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

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
