package v2_test

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

// versions are those that are served. What holds for one holds for the other, unless a test says so.
var versions = []string{"v2", "v2alpha1"}

const (
	host    = `hosts: [price.example.com]`
	gateway = `gateway: kyma-system/kyma-gateway`
	service = `service: {name: price, port: 80}`
	rules   = `rules: [{path: /*, methods: [GET], noAuth: true}]`
)

// apiRule has the given YAML as its spec.
func apiRule(t *testing.T, version, namespace, spec string) *unstructured.Unstructured {
	t.Helper()
	return envtest.Object(t, `
apiVersion: gateway.kyma-project.io/`+version+`
kind: APIRule
metadata: {generateName: rule-, namespace: `+namespace+`}
spec: `+spec)
}

// create asks for the object without keeping it, and returns what the kube-apiserver would have stored.
func create(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	stored := object.DeepCopy()
	err := cluster.Environment(t).Client.Create(t.Context(), stored, client.DryRunAll)
	return stored, err
}
