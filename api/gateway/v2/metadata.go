package v2

const (
	// AnnotationOriginalVersion is the version in which an APIRule was written. Kyma's webhook sets it.
	AnnotationOriginalVersion = "gateway.kyma-project.io/original-version"
	// AnnotationV1beta1Spec keeps the spec of an APIRule that was written as v1beta1, as JSON. Kyma's webhook sets it.
	AnnotationV1beta1Spec = "gateway.kyma-project.io/v1beta1-spec"
)
