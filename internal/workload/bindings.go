package workload

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// EnvBindingRoot names the folder with the bindings of a Function: one folder for each, with a file for each key of its
// Secret. Libraries that read bindings look there, and the runtimes of servicebinding.io mount there.
const EnvBindingRoot = "SERVICE_BINDING_ROOT"

// BindingRoot is where bindings are unless the user says otherwise.
const BindingRoot = "/bindings"

// BindingVolumePrefix begins the names of the volumes that runtimes of servicebinding.io add to pods.
const BindingVolumePrefix = "servicebinding-"

// bindingRoot names the folder of bindings where a mounted Secret is one. Other Functions do without the variable, so
// that a runtime of servicebinding.io finds them as it expects.
func bindingRoot(fn *v1alpha2.Function) []corev1.EnvVar {
	if !MountsBelow(fn, BindingRoot) {
		return nil
	}
	return []corev1.EnvVar{{Name: EnvBindingRoot, Value: BindingRoot}}
}

// MountsBelow reports whether the Function mounts a Secret in a folder below root.
func MountsBelow(fn *v1alpha2.Function, root string) bool {
	root = strings.TrimSuffix(path.Clean(root), "/") + "/"
	return slices.ContainsFunc(fn.Spec.SecretMounts, func(mount v1alpha2.SecretMount) bool {
		return strings.HasPrefix(path.Clean(mount.MountPath), root)
	})
}
