// Package v2 holds the APIRule of the API group gateway.kyma-project.io: at which host, and under which rules, callers from outside
// reach Services.
//
// It owns the schema and the words of the status. It guarantees that whatever the CustomResourceDefinition accepts decodes into these
// types and encodes back into what it accepts, and that the schema accepts what Kyma's does: v2alpha1 has the same fields, so that
// no webhook converts them.
//
// The schema only says what an APIRule looks like. Whether it makes sense is judged by internal/apirule, and answered in the status.
//
// +kubebuilder:object:generate=true
// +groupName=gateway.kyma-project.io
package v2
