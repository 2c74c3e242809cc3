// Package v1alpha2 holds the Subscription of the API group
// eventing.kyma-project.io: which event types one sink wants to receive.
//
// It owns the schema, its defaults and the words of the status (condition
// types and reasons). It guarantees that whatever the CustomResourceDefinition
// accepts decodes into these types and encodes back into what it accepts.
//
// The schema only says what a Subscription looks like. Whether it makes sense
// is judged by the controller, which answers in the status.
//
// +kubebuilder:object:generate=true
// +groupName=eventing.kyma-project.io
package v1alpha2
