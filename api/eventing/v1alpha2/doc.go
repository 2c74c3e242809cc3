// Package v1alpha2 contains the Subscription of the API group eventing.kyma-project.io, which selects the event types that
// one sink receives.
//
// It owns the schema, its defaults, and the condition types and reasons of the status. It guarantees that whatever the
// CustomResourceDefinition accepts decodes into these types and encodes back into what it accepts.
//
// The schema checks only the structure of a Subscription. The controller validates its values, and reports in the status.
//
// +kubebuilder:object:generate=true
// +groupName=eventing.kyma-project.io
package v1alpha2
