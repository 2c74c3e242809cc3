// Package v1alpha2 holds the Function of the API group
// serverless.kyma-project.io: source code in one of the supported languages
// that is run as a workload and answers HTTP requests and events.
//
// It owns the schema, its defaults, its validation rules with their messages,
// the words of the status (condition types and reasons), and the labels and
// annotations that people and other components meet. It guarantees that a
// manifest that Kyma accepts is accepted, deprecated fields included.
//
// What the schema can judge is refused by the API server. The rest is judged by
// the controller, which answers in the status.
//
// +kubebuilder:object:generate=true
// +groupName=serverless.kyma-project.io
package v1alpha2
