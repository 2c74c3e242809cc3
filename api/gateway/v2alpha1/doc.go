// Package v2alpha1 holds the version in which an APIRule of the API group gateway.kyma-project.io is stored. Spec and status are
// those of v2: the two differ only in that this one accepts an APIRule without a spec, which Kyma leaves of one that it cannot
// convert.
//
// +kubebuilder:object:generate=true
// +groupName=gateway.kyma-project.io
package v2alpha1
