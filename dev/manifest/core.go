package manifest

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"
)

// ignored reports whether local mode has no such objects, and warns if the user could miss it.
func (d *decoder) ignored(o *object) bool {
	kind := o.GroupVersionKind()
	core := kind.Kind == kindConfigMap || kind.Kind == kindSecret
	if d.known[kind] != nil || core && o.GetAPIVersion() == "v1" {
		return false
	}
	if core || kind.Kind == kindFunction || kind.Kind == kindSubscription || kind.Kind == kindAPIRule {
		d.note(o.problem("apiVersion", fmt.Sprintf("no matches for kind %q in version %q", kind.Kind, o.GetAPIVersion()), d.versionOf(kind.Kind)))
		return true
	}
	if d.reported[kind.Kind] || isUnneededLocally(kind.Kind) {
		return true
	}
	d.reported[kind.Kind] = true
	problem := o.problem("kind", fmt.Sprintf("local mode has no %s: it is left out", kind.Kind), "")
	problem.Warning = true
	d.note(problem)
	return true
}

// versionOf advises the newest version of a kind.
func (d *decoder) versionOf(kind string) string {
	newest := schema.GroupVersion{Version: "v1"}
	for known := range d.known {
		if known.Kind == kind && (newest.Group == "" || version.CompareKubeAwareVersionStrings(known.Version, newest.Version) > 0) {
			newest = known.GroupVersion()
		}
	}
	return "use " + newest.String()
}

// isUnneededLocally are kinds without which a Function does the same on one's own machine.
func isUnneededLocally(kind string) bool {
	return slices.Contains([]string{
		"Namespace", "Kustomization", "NetworkPolicy", "PodDisruptionBudget", "ResourceQuota", "LimitRange",
		"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
	}, kind)
}

// addCore adds a ConfigMap or a Secret.
func (d *decoder) addCore(o *object) {
	before := len(d.problems)
	if o.GetKind() == kindConfigMap {
		config := &corev1.ConfigMap{}
		if d.strictly(o, config, config) {
			d.checkKeys(o, "data", slices.Sorted(maps.Keys(config.Data)))
			d.checkKeys(o, "binaryData", slices.Sorted(maps.Keys(config.BinaryData)))
		}
		if !d.broken(before) {
			d.set.ConfigMaps = append(d.set.ConfigMaps, config)
		}
		return
	}
	secret := &corev1.Secret{}
	if d.strictly(o, secret, secret) {
		d.checkKeys(o, "data", slices.Sorted(maps.Keys(secret.Data)))
		d.checkKeys(o, "stringData", slices.Sorted(maps.Keys(secret.StringData)))
	}
	if d.broken(before) {
		return
	}
	// As an API server stores it: stringData wins.
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
	d.set.Secrets = append(d.set.Secrets, secret)
}

// strictly decodes the object, and reports which of its fields the type does not have.
func (d *decoder) strictly(o *object, typed any, meta metav1.Object) bool {
	if !d.into(o, typed) {
		return false
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, wrong := range strict.Errors() {
			d.note(o.problem(unknownField(wrong), wrong.Error(), "check its spelling and its indentation, or remove it"))
		}
	}
	d.noteFields(o, apivalidation.ValidateObjectMetaAccessor(meta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata")))
	return true
}

// unknownField is the path that a strict decoder names.
func unknownField(err error) string {
	var path string
	if _, scanErr := fmt.Sscanf(err.Error(), "unknown field %q", &path); scanErr != nil {
		return ""
	}
	return path
}

func (d *decoder) checkKeys(o *object, path string, keys []string) {
	for _, key := range keys {
		for _, text := range validation.IsConfigMapKey(key) {
			d.noteFields(o, field.ErrorList{field.Invalid(field.NewPath(path).Key(key), key, text)})
		}
	}
}
