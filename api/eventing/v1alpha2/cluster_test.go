package v1alpha2_test

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// What is accepted lives in the CRD, so only a real kube-apiserver can tell.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// subscription has the given YAML as its spec.
func subscription(t *testing.T, namespace, spec string) *unstructured.Unstructured {
	t.Helper()
	return envtest.Object(t, `
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {generateName: sub-, namespace: `+namespace+`}
spec: `+spec)
}

// create asks for the object without keeping it, and returns what the
// kube-apiserver would have stored.
func create(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	stored := object.DeepCopy()
	err := cluster.Environment(t).Client.Create(t.Context(), stored, client.DryRunAll)
	return stored, err
}
