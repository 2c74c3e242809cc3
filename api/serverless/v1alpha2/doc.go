// Package v1alpha2 contains the Function of the API group serverless.kyma-project.io: source code in one of the supported
// languages that runs as a workload and handles HTTP requests and events.
//
// It owns the schema, its defaults, its validation rules with their messages, the condition types and reasons of the
// status, and the labels and annotations that users and other components see. It guarantees that a manifest that Kyma
// accepts is accepted, deprecated fields included.
//
// The API server rejects what the schema can check. The controller validates the rest, and reports in the status.
//
// +kubebuilder:object:generate=true
// +groupName=serverless.kyma-project.io
package v1alpha2
