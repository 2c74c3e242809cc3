// Package v2alpha1 contains the storage version of the APIRule of the API group gateway.kyma-project.io. Spec and status
// are those of v2, except that this version accepts an APIRule without a spec, which Kyma leaves behind when it cannot
// convert one.
//
// +kubebuilder:object:generate=true
// +groupName=gateway.kyma-project.io
package v2alpha1
