// Package v1alpha1 holds the Function and the GitRepository of the API group serverless.kyma-project.io in Kyma's older version. It is
// served only where the installation asks for it; what is stored is v1alpha2.
//
// It owns the schema and the annotations by which a Function keeps what the other version has no field for. It guarantees that a
// manifest of that version is accepted; what it may say is judged by the rules of v1alpha2, which it becomes (internal/conversion).
//
// +kubebuilder:object:generate=true
// +groupName=serverless.kyma-project.io
package v1alpha1
