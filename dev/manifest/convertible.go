package manifest

// conversion returns the command that converts an object of an old version, and what it does; empty for objects that it leaves as they are.
func conversion(o *object, does string) string {
	kind := o.GroupVersionKind()
	old := false
	switch kind.GroupKind().String() {
	case kindFunction + ".serverless.kyma-project.io", "GitRepository.serverless.kyma-project.io":
		old = kind.Version == "v1alpha1"
	case kindAPIRule + ".gateway.kyma-project.io":
		old = kind.Version == "v1beta1" || kind.Version == "v1alpha1"
	}
	if !old {
		return ""
	}
	return "rouse convert -f " + o.doc.file + " " + does
}
