package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/internal/workload"
)

// The marks by which a runtime of servicebinding.io finds again what it wrote. The UID of the ServiceBinding follows.
const (
	group            = "projector.servicebinding.io/"
	secretAnnotation = group + "secret-"
	// annotationField begins what a variable refers to that has the type or the provider of a service.
	annotationField = "metadata.annotations['" + group
)

// Secrets names the Secrets of the services that are bound, each once and sorted.
func Secrets(annotations map[string]string) []string {
	var names []string
	for key, secret := range annotations {
		if strings.HasPrefix(key, secretAnnotation) && secret != "" {
			names = append(names, secret)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Projected is the part of a pod template's spec that was projected into it, and nothing else: what a cache has to
// hold of it.
func Projected(template *corev1.PodTemplateSpec) corev1.PodSpec {
	secrets := Secrets(template.Annotations)
	if len(secrets) == 0 {
		return corev1.PodSpec{}
	}
	kept := corev1.PodSpec{}
	volumes := map[string]bool{}
	for _, volume := range template.Spec.Volumes {
		uid, named := strings.CutPrefix(volume.Name, workload.BindingVolumePrefix)
		if named && template.Annotations[secretAnnotation+uid] != "" {
			volumes[volume.Name] = true
			kept.Volumes = append(kept.Volumes, volume)
		}
	}
	kept.InitContainers = projectedContainers(template.Spec.InitContainers, volumes, secrets)
	kept.Containers = projectedContainers(template.Spec.Containers, volumes, secrets)
	return kept
}

func projectedContainers(containers []corev1.Container, volumes map[string]bool, secrets []string) []corev1.Container {
	var kept []corev1.Container
	for i := range containers {
		own := corev1.Container{Name: containers[i].Name}
		for _, mount := range containers[i].VolumeMounts {
			if volumes[mount.Name] {
				own.VolumeMounts = append(own.VolumeMounts, mount)
			}
		}
		for _, variable := range containers[i].Env {
			if isProjected(variable, secrets) {
				own.Env = append(own.Env, variable)
			}
		}
		if len(own.VolumeMounts)+len(own.Env) > 0 {
			kept = append(kept, own)
		}
	}
	return kept
}

// isProjected is the runtime's own rule: a variable of a bound Secret is the runtime's, whoever wrote it.
func isProjected(variable corev1.EnvVar, secrets []string) bool {
	switch from := variable.ValueFrom; {
	case from == nil:
		return false
	case from.SecretKeyRef != nil:
		return slices.Contains(secrets, from.SecretKeyRef.Name)
	default:
		return from.FieldRef != nil && strings.HasPrefix(from.FieldRef.FieldPath, annotationField)
	}
}
