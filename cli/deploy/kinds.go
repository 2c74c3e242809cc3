package deploy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	kindNamespace = "Namespace"
	kindConfigMap = "ConfigMap"
	kindFunction  = "Function"
	kindSecret    = "Secret"
)

// kind describes a kind of objects that folders have.
type kind struct {
	name, group, version, resource string
	// pruned reports whether objects are deleted that the folder does not have any more.
	pruned bool
}

// kinds returns all kinds in the order in which they are applied.
func kinds() []kind {
	return []kind{
		{kindNamespace, "", "v1", "namespaces", false},
		{kindSecret, "", "v1", "secrets", false},
		{kindConfigMap, "", "v1", "configmaps", true},
		{kindFunction, "serverless.kyma-project.io", "v1alpha2", "functions", true},
		{"Subscription", "eventing.kyma-project.io", "v1alpha2", "subscriptions", true},
		{"Schedule", "rouse.run", "v1alpha1", "schedules", true},
		{"Door", "rouse.run", "v1alpha1", "doors", true},
		{"APIRule", "gateway.kyma-project.io", "v2", "apirules", true},
	}
}

// rank returns the place of a kind in the order.
func rank(name string) int {
	return slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
}

// resourceOf returns the resource of an object, in the version that the object is written in.
func resourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	return gvk.GroupVersion().WithResource(kinds()[rank(gvk.Kind)].resource)
}

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// resource returns the resource in the version that a deploy reads.
func (r Ref) resource() schema.GroupVersionResource { return kinds()[rank(r.Kind)].gvr() }

// String returns the name as kubectl prints it: function/price.
func (r Ref) String() string { return strings.ToLower(r.Kind) + "/" + r.Name }

// next returns the command that shows why the object is not ready.
func (r Ref) next() string {
	if r.Kind == kindFunction {
		return "rouse describe function " + r.Name + " -n " + r.Namespace + " shows more"
	}
	return "kubectl describe " + strings.ToLower(r.Kind) + " " + r.Name + " -n " + r.Namespace + " shows more"
}
