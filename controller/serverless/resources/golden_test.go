package resources

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	operatorv1alpha1 "github.com/rouse-run/rouse/api/operator/v1alpha1"
)

// installationText is what the chart writes, with everything that it may say.
const installationText = `
namespaces: [kyma-system]
binding: rouse-functions
roles: {functions: rouse-functions, leader: rouse-functions-leader}
defaults: {publisherAddress: "http://rouse-eventbridge.rouse-system.svc.cluster.local/publish", logLevel: info}
controller:
  image: ghcr.io/rouse-run/rouse:1
  imagePullPolicy: IfNotPresent
  imagePullSecrets: [registry]
  replicas: 1
  args: ["--runtime-image=nodejs22=ghcr.io/rouse-run/rouse-runtime-nodejs22:1", "--metrics-address=:9090"]
  env: [{name: GOMEMLIMIT, value: "241591910"}]
  resources: {requests: {cpu: 20m, memory: 64Mi}, limits: {memory: 256Mi}}
  caBundle: |
    -----BEGIN CERTIFICATE-----
  priorityClassName: system-cluster-critical
  nodeSelector: {pool: system}
  tolerations: [{operator: Exists}]
  podAnnotations: {example.com/a: b}
networkPolicy:
  ingress: [{ports: [{port: metrics}], from: [{namespaceSelector: {}}]}]
  egress: [{ports: [{port: 53, protocol: UDP}]}, {ports: [{protocol: TCP}]}]
`

func installation(t *testing.T) *Installation {
	t.Helper()
	read, err := ParseInstallation([]byte(installationText))
	require.NoError(t, err)
	return read
}

// small is an installation that says no more than it must.
func small() *Installation {
	return &Installation{
		Namespaces: []string{"*"}, Binding: "rouse-functions", Roles: Roles{Functions: "rouse-functions", Leader: "rouse-functions-leader"},
		Defaults:   Defaults{PublisherAddress: "http://bridge/publish"},
		Controller: Controller{Image: "rouse:1", Replicas: 1, Args: []string{"--metrics-address=:9090"}},
	}
}

func owner() *operatorv1alpha1.Serverless {
	return &operatorv1alpha1.Serverless{ObjectMeta: metav1.ObjectMeta{Namespace: "kyma-system", Name: "default", UID: "6f1c"}}
}

// requireGolden compares objects with testdata/<name>.yaml. With UPDATE_GOLDEN=1 it writes the file instead.
func requireGolden(t *testing.T, name string, objects []*unstructured.Unstructured) {
	t.Helper()
	var text strings.Builder
	for _, object := range objects {
		part, err := yaml.Marshal(object.Object)
		require.NoError(t, err)
		text.WriteString("---\n" + string(part))
	}
	path := filepath.Join("testdata", name+".yaml")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text.String(), "run the test with UPDATE_GOLDEN=1 if the change is meant")
}
