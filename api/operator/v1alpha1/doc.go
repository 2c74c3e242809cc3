// Package v1alpha1 holds the Serverless of the API group operator.kyma-project.io: that Functions are to be served in a cluster, and
// how.
//
// It owns the schema and the words of the status. It guarantees that the schema accepts what Kyma's does, with the same names of
// fields, conditions, reasons and states; observedGeneration is added. Which values make sense is judged by the operator and
// answered in the status.
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1alpha1
