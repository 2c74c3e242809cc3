package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/activation"
)

const sliceManifest = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: pricing-rouse-ipv4
  labels:
    kubernetes.io/service-name: pricing
    endpointslice.kubernetes.io/managed-by: gateway.rouse.run
    serverless.kyma-project.io/uuid: %s
addressType: IPv4
ports: [{name: http, port: 12345}]
endpoints: []
`

const gatewayManifest = `
apiVersion: v1
kind: Pod
metadata:
  name: gateway
  labels: {app.kubernetes.io/part-of: rouse, app.kubernetes.io/component: gateway}
spec: {containers: [{name: gateway, image: x}]}
`

const functionPodManifest = `
apiVersion: v1
kind: Pod
metadata:
  name: pricing
  labels: {serverless.kyma-project.io/function-name: pricing, serverless.kyma-project.io/resource: deployment}
spec: {containers: [{name: function, image: x, ports: [{containerPort: 8080}]}]}
`

// applyReady creates a ready pod.
func (c testCluster) applyReady(t *testing.T, manifest string) {
	t.Helper()
	pod := c.apply(t, manifest)
	require.NoError(t, unstructured.SetNestedMap(pod.Object, map[string]any{
		"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
	}, "status"))
	require.NoError(t, c.Client.Status().Update(t.Context(), pod))
}

// openForwarding is a connection that reaches the ports of pods, each as <pod>:<port>, without a kubelet.
func (c testCluster) openForwarding(t *testing.T, context string, reach func(port string) (url string, err error)) *Connection {
	t.Helper()
	conn := c.open(t, context)
	opened, ok := conn.Target.(*cluster)
	require.True(t, ok)
	opened.forward = forwarding(c.namespace, reach)
	return conn
}

func forwarding(own string, reach func(port string) (string, error)) func(context.Context, *corev1.Pod, int32) (string, error) {
	return func(_ context.Context, pod *corev1.Pod, port int32) (string, error) {
		if pod.Namespace != own {
			return "", fmt.Errorf("namespace %s", pod.Namespace)
		}
		return reach(fmt.Sprintf("%s:%d", pod.Name, port))
	}
}

// activatorOf responds as a gateway does at the port of the Function with this UID.
func activatorOf(t *testing.T, uid string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			w.Header().Set(activation.HeaderFunction, uid)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestFunctionThatHTTPWakesIsCalledAtItsGatewayPort(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	uid := string(c.apply(t, functionManifest).GetUID())
	c.apply(t, fmt.Sprintf(sliceManifest, uid))
	c.applyReady(t, gatewayManifest)
	c.applyReady(t, functionPodManifest)
	want := activatorOf(t, uid)
	conn := c.openForwarding(t, "admin", func(port string) (string, error) {
		require.Equal(t, "gateway:12345", port)
		return want, nil
	})
	got, err := conn.Function(t.Context(), c.namespace, "pricing")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestAFunctionWithoutAnActivatorIsCalledAtItsPod(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(t *testing.T, c testCluster, uid string) (gateway string, err error){
		"HTTP does not wake it": func(t *testing.T, c testCluster, _ string) (string, error) {
			t.Helper()
			c.applyReady(t, gatewayManifest)
			return "", nil
		},
		"the slice is that of a Function of the same name before": func(t *testing.T, c testCluster, _ string) (string, error) {
			t.Helper()
			c.apply(t, fmt.Sprintf(sliceManifest, "before"))
			c.applyReady(t, gatewayManifest)
			return "", nil
		},
		"there is no gateway": func(t *testing.T, c testCluster, uid string) (string, error) {
			t.Helper()
			c.apply(t, fmt.Sprintf(sliceManifest, uid))
			return "", nil
		},
		"no gateway is ready": func(t *testing.T, c testCluster, uid string) (string, error) {
			t.Helper()
			c.apply(t, fmt.Sprintf(sliceManifest, uid))
			c.apply(t, gatewayManifest)
			return "", nil
		},
		"the port is another Function's": func(t *testing.T, c testCluster, uid string) (string, error) {
			t.Helper()
			c.apply(t, fmt.Sprintf(sliceManifest, uid))
			c.applyReady(t, gatewayManifest)
			return activatorOf(t, "another"), nil
		},
		"the gateway cannot be reached": func(t *testing.T, c testCluster, uid string) (string, error) {
			t.Helper()
			c.apply(t, fmt.Sprintf(sliceManifest, uid))
			c.applyReady(t, gatewayManifest)
			return "", errors.New("forbidden")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t)
			gateway, unreachable := arrange(t, c, string(c.apply(t, functionManifest).GetUID()))
			c.applyReady(t, functionPodManifest)
			conn := c.openForwarding(t, "admin", func(port string) (string, error) {
				if port == "gateway:12345" {
					return gateway, unreachable
				}
				return "http://" + port, nil
			})
			got, err := conn.Function(t.Context(), c.namespace, "pricing")
			require.NoError(t, err)
			require.Equal(t, "http://pricing:8080", got)
		})
	}
}

func TestCallWithoutPermissionsNamesTheRequirementsOfEachWay(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.apply(t, functionManifest)
	c.apply(t, deploymentManifest)
	c.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: limited}
rules:
  - {apiGroups: [serverless.kyma-project.io], resources: [functions], verbs: [get]}
  - {apiGroups: [""], resources: [pods], verbs: [list]}
`)
	c.apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: limited}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: limited}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: limited}]
`)
	conn := c.open(t, "limited")
	var err error
	require.Eventually(t, func() bool { // the API server learns of roles a little later
		_, err = conn.Function(t.Context(), c.namespace, "pricing")
		return err != nil && strings.Contains(err.Error(), "deployments/scale")
	}, testTimeout, 10*time.Millisecond)
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
	require.ErrorContains(t, err, "you may not get deployments/scale in namespace "+c.namespace+": ask for a role with that verb in")
	require.ErrorContains(t, err, "; and a gateway cannot be queried: you may not list endpointslices in namespace "+c.namespace+": ask for a role")
}
