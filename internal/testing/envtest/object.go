package envtest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// Object reads one YAML manifest as it is, without any types in between.
func Object(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(manifest))
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(raw))
	return object
}

// Causes are what the kube-apiserver found wrong with an object, each as
// "field: message". That it left out rules because of them is not one.
func Causes(t testing.TB, err error) []string {
	t.Helper()
	require.Error(t, err)
	require.True(t, apierrors.IsInvalid(err), "not refused by validation: %v", err)
	var status apierrors.APIStatus
	require.ErrorAs(t, err, &status)
	var causes []string
	for _, cause := range status.Status().Details.Causes {
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		causes = append(causes, cause.Field+": "+cause.Message)
	}
	return causes
}

// Table is what kubectl get prints for one resource of a namespace.
func (e *Environment) Table(t testing.TB, resource schema.GroupVersionResource, namespace string) *metav1.Table {
	t.Helper()
	clients, err := kubernetes.NewForConfig(e.Config)
	require.NoError(t, err)
	path := []string{"", "apis", resource.Group, resource.Version, "namespaces", namespace, resource.Resource}
	raw, err := clients.RESTClient().Get().AbsPath(strings.Join(path, "/")).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		DoRaw(t.Context())
	require.NoError(t, err)
	table := &metav1.Table{}
	require.NoError(t, json.Unmarshal(raw, table))
	return table
}

// Resource is one resource as discovery describes it.
func (e *Environment) Resource(t testing.TB, resource schema.GroupVersionResource) metav1.APIResource {
	t.Helper()
	clients, err := kubernetes.NewForConfig(e.Config)
	require.NoError(t, err)
	list, err := clients.Discovery().ServerResourcesForGroupVersion(resource.GroupVersion().String())
	require.NoError(t, err)
	for _, found := range list.APIResources {
		if found.Name == resource.Resource {
			return found
		}
	}
	require.Fail(t, "no such resource", resource.String())
	return metav1.APIResource{}
}
