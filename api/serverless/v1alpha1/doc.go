// Package v1alpha1 contains the Function and the GitRepository of the API group serverless.kyma-project.io in Kyma's older
// version. It is served only if the installation enables it; the storage version is v1alpha2.
//
// It owns the schema, and the annotations that hold the fields which the other version lacks. It guarantees that a
// manifest of that version is accepted; its values are validated by the rules of v1alpha2, to which it is converted
// (internal/conversion).
//
// +kubebuilder:object:generate=true
// +groupName=serverless.kyma-project.io
package v1alpha1
