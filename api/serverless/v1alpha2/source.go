package v1alpha2

// Source is where the code comes from: exactly one of its fields is set.
type Source struct {
	// GitRepository fetches the code.
	// +optional
	GitRepository *GitRepositorySource `json:"gitRepository,omitempty"`

	// Inline holds the code.
	// +optional
	Inline *InlineSource `json:"inline,omitempty"`
}

// InlineSource is code in the manifest.
type InlineSource struct {
	// Source is the content of the one source file.
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
	// URL of the repository, for HTTP or SSH.
	URL string `json:"url"`

	// Auth is how to log in at the repository.
	// +optional
	Auth *RepositoryAuth `json:"auth,omitempty"`

	// BaseDir is the directory of the code within the repository.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`

	// Reference is a branch, a tag or a commit.
	// +optional
	Reference string `json:"reference,omitempty"`
}

// RepositoryAuth is how to log in at a repository.
type RepositoryAuth struct {
	// Type of the credentials.
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
