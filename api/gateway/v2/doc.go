// Package v2 contains the APIRule of the API group gateway.kyma-project.io, which exposes Services at a host, under rules,
// to callers outside of the cluster.
//
// It owns the schema and the states of the status. It guarantees that whatever the CustomResourceDefinition accepts
// decodes into these types and encodes back into what it accepts, and that the schema accepts what Kyma's does: v2alpha1
// has the same fields, so no webhook converts them.
//
// The schema checks only the structure of an APIRule. The controller validates its values by internal/apirule, and reports
// in the status.
//
// +kubebuilder:object:generate=true
// +groupName=gateway.kyma-project.io
package v2
