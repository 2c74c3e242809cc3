package v1alpha2_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// The rules live in the CRD, so only a real kube-apiserver can report whether
// they say what is meant.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// function is a small valid Function. The fields of the YAML replace those of
// its spec; a null takes one away.
func function(t *testing.T, namespace, fields string) *unstructured.Unstructured {
	t.Helper()
	spec := map[string]any{
		"runtime": "nodejs22",
		"source":  map[string]any{"inline": map[string]any{"source": "module.exports = { main: () => 'hello' }"}},
	}
	var changes map[string]any
	require.NoError(t, yaml.UnmarshalStrict([]byte(fields), &changes))
	for key, value := range changes {
		if value == nil {
			delete(spec, key)
			continue
		}
		spec[key] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serverless.kyma-project.io/v1alpha2",
		"kind":       "Function",
		"metadata":   map[string]any{"generateName": "fn-", "namespace": namespace},
		"spec":       spec,
	}}
}

// create asks for the object without keeping it, and returns what the
// kube-apiserver would have stored.
func create(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	stored := object.DeepCopy()
	err := cluster.Environment(t).Client.Create(t.Context(), stored, client.DryRunAll)
	return stored, err
}
