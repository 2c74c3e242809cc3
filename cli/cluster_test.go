package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// testCluster is a namespace of a real API server. No controller runs.
type testCluster struct {
	*envtest.Environment

	namespace, kubeconfig string
}

// newTestCluster returns a namespace. Its kubeconfig has the contexts admin, and limited, who has no rights.
func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	environment := controlPlane.Environment(t)
	c := &testCluster{Environment: environment, namespace: environment.Namespace(t)}
	written := clientcmdapi.NewConfig()
	written.Clusters["test"] = &clientcmdapi.Cluster{Server: environment.Config.Host, CertificateAuthorityData: environment.Config.CAData}
	admin := &clientcmdapi.AuthInfo{
		ClientCertificateData: environment.Config.CertData, ClientKeyData: environment.Config.KeyData, Token: environment.Config.BearerToken,
	}
	limited := admin.DeepCopy()
	limited.Impersonate = "limited-" + c.namespace
	for name, user := range map[string]*clientcmdapi.AuthInfo{"admin": admin, "limited": limited} {
		written.AuthInfos[name] = user
		written.Contexts[name] = &clientcmdapi.Context{Cluster: "test", AuthInfo: name, Namespace: c.namespace}
	}
	written.CurrentContext = "admin"
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*written, c.kubeconfig))
	return c
}

// run runs a command line against the namespace.
func (c *testCluster) run(t *testing.T, args ...string) ran {
	t.Helper()
	return run(t, "", append(args, "--kubeconfig", c.kubeconfig)...)
}

// apply creates an object in the namespace.
func (c *testCluster) apply(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := envtest.Object(t, manifest)
	object.SetNamespace(c.namespace)
	require.NoError(t, c.Client.Create(t.Context(), object))
	return object
}

// get reads an object of the namespace, nil if there is none.
func (c *testCluster) get(t *testing.T, like, name string) *unstructured.Unstructured {
	t.Helper()
	object := envtest.Object(t, like)
	err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, object)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	require.NoError(t, err)
	return object
}

// peek is get for goroutines: it returns nil on any error.
func (c *testCluster) peek(kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	version, kind, _ := strings.Cut(kind, " ")
	object.SetAPIVersion(version)
	object.SetKind(kind)
	if c.Client.Get(context.Background(), client.ObjectKey{Namespace: c.namespace, Name: name}, object) != nil {
		return nil
	}
	return object
}

// setStatus replaces the status of an object.
func (c *testCluster) setStatus(ctx context.Context, object *unstructured.Unstructured, status map[string]any) error {
	object.Object["status"] = status
	return c.Client.Status().Update(ctx, object)
}

// control plays the controller: decide returns the status of an object that has none for its generation, nil for none yet.
func (c *testCluster) control(t *testing.T, decide func(object *unstructured.Unstructured) map[string]any) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for _, kind := range []string{functionKind, subscriptionKind} {
				c.decideAll(ctx, kind, decide)
			}
			select {
			case <-ctx.Done():
			case <-time.After(tick):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

func (c *testCluster) decideAll(ctx context.Context, kind string, decide func(object *unstructured.Unstructured) map[string]any) {
	list := &unstructured.UnstructuredList{}
	version, name, _ := strings.Cut(kind, " ")
	list.SetAPIVersion(version)
	list.SetKind(name + "List")
	if c.Client.List(ctx, list, client.InNamespace(c.namespace)) != nil {
		return
	}
	for i := range list.Items {
		object := &list.Items[i]
		if seen, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); seen == object.GetGeneration() {
			continue
		}
		if status := decide(object); status != nil {
			_ = c.setStatus(ctx, object, status) // again at the next tick
		}
	}
}

// Kinds with their versions.
const (
	functionKind     = "serverless.kyma-project.io/v1alpha2 Function"
	subscriptionKind = "eventing.kyma-project.io/v1alpha2 Subscription"
)

// readyStatus is what a controller writes about an object that is in force.
func readyStatus(object *unstructured.Unstructured) map[string]any {
	return statusOf(object, map[string]any{"type": "Ready", "status": "True", "reason": "Active", "message": "it runs"})
}

// stalledStatus is what a controller writes about an object for which somebody has to act.
func stalledStatus(object *unstructured.Unstructured, message string) map[string]any {
	return statusOf(object,
		map[string]any{"type": "Ready", "status": "False", "reason": "HandlerFailed", "message": message},
		map[string]any{"type": "Stalled", "status": "True", "reason": "HandlerFailed", "message": message})
}

func statusOf(object *unstructured.Unstructured, conditions ...map[string]any) map[string]any {
	all := make([]any, 0, len(conditions))
	for _, condition := range conditions {
		condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
		all = append(all, condition)
	}
	return map[string]any{"observedGeneration": object.GetGeneration(), "replicas": int64(0), "ready": true, "types": []any{}, "conditions": all}
}

// writeFolder makes a folder with files.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		writeFile(t, dir, name, content)
	}
	return dir
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}
