package resources

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

// Conflict says what a Function and its bindings both claim, empty when that is nothing. The runtime of
// servicebinding.io would undo each write of it by the controller, and the controller that of the runtime, for ever
// and with new pods each time. Live is the Deployment's template, whole or reduced to what Projected keeps.
func Conflict(live *corev1.PodTemplateSpec, wanted *corev1ac.PodSpecApplyConfiguration) string {
	secrets := Secrets(live.Annotations)
	if len(secrets) == 0 || wanted == nil {
		return ""
	}
	projected := Projected(live)
	bound := map[string]*corev1.Container{}
	for _, list := range [][]corev1.Container{projected.InitContainers, projected.Containers} {
		for i := range list {
			bound[list[i].Name] = &list[i]
		}
	}
	for i := range wanted.InitContainers {
		if found := conflictIn(&wanted.InitContainers[i], secrets, bound[ptr.Deref(wanted.InitContainers[i].Name, "")]); found != "" {
			return found
		}
	}
	for i := range wanted.Containers {
		if found := conflictIn(&wanted.Containers[i], secrets, bound[ptr.Deref(wanted.Containers[i].Name, "")]); found != "" {
			return found
		}
	}
	return ""
}

func conflictIn(wanted *corev1ac.ContainerApplyConfiguration, secrets []string, bound *corev1.Container) string {
	for i := range wanted.Env {
		name, from := ptr.Deref(wanted.Env[i].Name, ""), wanted.Env[i].ValueFrom
		if from != nil && from.SecretKeyRef != nil && slices.Contains(secrets, ptr.Deref(from.SecretKeyRef.Name, "")) {
			return fmt.Sprintf("The variable %s takes a key of the Secret %s, which a ServiceBinding projects and takes out of all variables "+
				"that are not its own. Move the variable from spec.env of the Function to spec.env of the ServiceBinding, or read the file of the binding",
				name, *from.SecretKeyRef.Name)
		}
		if bound != nil && slices.ContainsFunc(bound.Env, func(other corev1.EnvVar) bool { return other.Name == name }) {
			return fmt.Sprintf("A ServiceBinding sets the variable %s, which the Function has already. "+
				"Give it another name in spec.env of the ServiceBinding, or remove it from spec.env of the Function", name)
		}
	}
	for i := range wanted.VolumeMounts {
		path := ptr.Deref(wanted.VolumeMounts[i].MountPath, "")
		if bound != nil && slices.ContainsFunc(bound.VolumeMounts, func(other corev1.VolumeMount) bool { return other.MountPath == path }) {
			return fmt.Sprintf("A ServiceBinding is mounted at %s, where the Function mounts a Secret already. "+
				"Give spec.name of the ServiceBinding or the path in spec.secretMounts of the Function another value", path)
		}
	}
	return ""
}
