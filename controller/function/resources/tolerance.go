package resources

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/rouse-run/rouse/internal/workload"
)

// The path of a field below spec.template.spec of a Deployment: first the list, then the entry's key, in a container
// a list and a key again.
const (
	atList  = 3
	atEntry = 4
	atInner = 5
	atKey   = 6
)

// Tolerated reports of each field of a Deployment with this template, whole or reduced to what Projected keeps, whether
// it stays although another owner wrote it: what was projected does.
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
				// The runtime leaves this one behind: its removal would replace the pods once more.
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

// keyAt is the value of the key of a list's entry, empty where the path leads to no such entry.
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
