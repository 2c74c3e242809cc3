package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/buildplan"
)

// InputSecret holds what the builder works on: for a Job of the same name, or
// for pods that install for themselves.
func InputSecret(fn *v1alpha2.Function, name, resource string, plan, ca []byte) *corev1ac.SecretApplyConfiguration {
	data := map[string][]byte{buildplan.PlanFile: plan}
	if len(ca) > 0 {
		data[buildplan.CAFile] = ca
	}
	return corev1ac.Secret(name, fn.Namespace).
		WithLabels(overlay(internalLabels(fn), map[string]string{v1alpha2.LabelResource: resource})).
		WithOwnerReferences(ownerReference(fn)).
		WithType(corev1.SecretTypeOpaque).
		WithData(data)
}

// RegistrySecret holds the credentials with which a Function's images are pushed
// and pulled.
func RegistrySecret(fn *v1alpha2.Function, dockerConfig []byte) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(RegistrySecretName(fn.Name), fn.Namespace).
		WithLabels(internalLabels(fn)).
		WithOwnerReferences(ownerReference(fn)).
		WithType(corev1.SecretTypeDockerConfigJson).
		WithData(map[string][]byte{corev1.DockerConfigJsonKey: dockerConfig})
}
