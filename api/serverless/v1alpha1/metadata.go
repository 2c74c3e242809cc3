package v1alpha1

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
