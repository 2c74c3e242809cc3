// Package v1alpha1 contains the Serverless of the API group operator.kyma-project.io, which requests and configures the
// Function controller of a cluster.
//
// It owns the schema, and the conditions and states of the status. It guarantees that the schema accepts what Kyma's does,
// with the same names of fields, conditions, reasons and states; observedGeneration is added. The operator validates the
// values, and reports in the status.
//
// +kubebuilder:object:generate=true
// +groupName=operator.kyma-project.io
package v1alpha1
