package resources

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/rouse-run/rouse/internal/workload"
)

// The prefixes by which a runtime of servicebinding.io finds its own additions again. The UID of the ServiceBinding
// follows.
const (
	group            = "projector.servicebinding.io/"
	secretAnnotation = group + "secret-"
	// annotationField is the prefix of the field reference of a variable with the type or the provider of a service.
	annotationField = "metadata.annotations['" + group
)

// Secrets returns the names of the bound Secrets, sorted and without duplicates.
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

// Projected returns only the part of a pod template's spec that was projected into it, which is all that a cache needs.
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

// isProjected applies the runtime's own rule: a variable that refers to a bound Secret belongs to the runtime, whoever
// wrote it.
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

// Conflict describes a field that both a Function and its bindings claim, empty when there is none. The runtime of
// servicebinding.io and the controller would otherwise undo each other's writes for ever, with new pods each time. live
// is the Deployment's template, complete or reduced by Projected.
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

// Indexes into the path of a field below spec.template.spec of a Deployment: the list, the key of its entry and, in
// a container, another list and key.
const (
	atList  = 3
	atEntry = 4
	atInner = 5
	atKey   = 6
)

// Tolerated returns a predicate for the fields of a Deployment with this template, complete or reduced by Projected:
// whether a field stays although another owner wrote it. Projected fields do.
func Tolerated(template *corev1.PodTemplateSpec) func(fieldpath.Path) bool {
	projected := Projected(template)
	stays := map[string]bool{}
	for _, volume := range projected.Volumes {
		stays["volumes/"+volume.Name] = true
	}
	note := func(list string, containers []corev1.Container) {
		for i := range containers {
			in := list + "/" + containers[i].Name
			for _, mount := range containers[i].VolumeMounts {
				stays[in+"/volumeMounts/"+mount.MountPath] = true
			}
			for _, variable := range containers[i].Env {
				stays[in+"/env/"+variable.Name] = true
			}
		}
	}
	note("initContainers", projected.InitContainers)
	note("containers", projected.Containers)
	return func(path fieldpath.Path) bool {
		switch list := fieldAt(path, atList); list {
		case "volumes":
			return stays["volumes/"+keyAt(path, atEntry, "name")]
		case "initContainers", "containers":
			in, inner := list+"/"+keyAt(path, atEntry, "name"), fieldAt(path, atInner)
			switch inner {
			case "volumeMounts":
				return stays[in+"/volumeMounts/"+keyAt(path, atKey, "mountPath")]
			case "env":
				name := keyAt(path, atKey, "name")
				// The runtime does not remove this one: removing it would replace the pods once more.
				return name == workload.EnvBindingRoot || stays[in+"/env/"+name]
			}
		}
		return false
	}
}

func fieldAt(path fieldpath.Path, at int) string {
	if len(path) <= at || path[at].FieldName == nil {
		return ""
	}
	return *path[at].FieldName
}

// keyAt returns the value of the key of a list's entry, empty when the path does not lead to such an entry.
func keyAt(path fieldpath.Path, at int, key string) string {
	if len(path) <= at || path[at].Key == nil {
		return ""
	}
	for _, field := range *path[at].Key {
		if field.Name == key && field.Value.IsString() {
			return field.Value.AsString()
		}
	}
	return ""
}
