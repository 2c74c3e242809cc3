//go:build e2e

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// serveAPIRules enables APIRules in the installed release, once for all tests.
var serveAPIRules = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("helm", "upgrade", "rouse", "../../charts/rouse", "--namespace", framework.System, "--reuse-values",
		"--set", "apiRules.enabled=true,apiRules.gatewayAPI=auto", "--wait", "--timeout", "5m").CombinedOutput()
	return string(out), err
})

// start makes a namespace in a cluster that serves APIRules, and a client outside of it.
func start(t *testing.T) (*framework.Cluster, *framework.Outside, string) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	outside, err := cluster.Outside(t.Context())
	require.NoError(t, err)
	out, err := serveAPIRules()
	require.NoError(t, err, out)
	return cluster, outside, cluster.TestNamespace(t, "gateway")
}

const (
	asleep = 90 * time.Second // timeout for a Function with fast settings to fall asleep
	ready  = time.Minute      // timeout for an APIRule to become ready
)

func TestOnlyAValidTokenWakesASleepingFunctionFromOutside(t *testing.T) {
	t.Parallel()
	cluster, outside, namespace := start(t)
	issuer, err := cluster.StartIssuer(t.Context(), namespace)
	require.NoError(t, err)
	sleeper := framework.Function{
		Name: "orders", Runtime: "nodejs22", Source: "module.exports.main = () => 'awake'", Asleep: true, Annotations: framework.Fast(),
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, sleeper.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "orders", "Running", "True", 2*time.Minute))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "orders", 0, asleep))
	require.NoError(t, cluster.AwaitNoPods(t.Context(), namespace, "orders", asleep))
	replicas, err := cluster.RecordReplicas(t.Context(), namespace, "orders")
	require.NoError(t, err)

	rule := framework.APIRule{Name: "orders", Host: "orders-" + namespace, Service: "orders", JWT: map[string]any{"authentications": []any{
		map[string]any{"issuer": issuer.URI, "jwksUri": issuer.URI},
	}}}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, rule.YAML()))
	require.NoError(t, cluster.AwaitState(t.Context(), namespace, "orders", "Ready", "", ready))
	requireRouteOf(t, cluster, namespace, "orders")

	require.NoError(t, outside.AwaitStatus(t.Context(), rule.Host, http.StatusForbidden, ready), "no token")
	token, err := issuer.Token("caller")
	require.NoError(t, err)
	status, answer, err := outside.Get(t.Context(), rule.Host, token[:len(token)-2])
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status, "a token with another signature: %s", answer)

	asked := time.Now()
	status, answer, err = outside.Get(t.Context(), rule.Host, token)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, "awake", answer)
	t.Logf("awake after %s", time.Since(asked).Round(time.Millisecond))
	requireWokenAfter(t, replicas, asked)

	gone(t, cluster, namespace, framework.APIRuleGVK, "orders")
	require.NoError(t, framework.Await(t.Context(), ready, "the HTTPRoute to be gone", func(ctx context.Context) (bool, error) {
		_, err := get(ctx, cluster, namespace, framework.HTTPRouteGVK, "orders")
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
	require.NoError(t, outside.AwaitStatus(t.Context(), rule.Host, http.StatusNotFound, ready), "the host must be free")
}

func TestHostBelongsToTheOldestAPIRule(t *testing.T) {
	t.Parallel()
	cluster, outside, first := start(t)
	second := cluster.TestNamespace(t, "gateway")
	host := "taken-" + first
	for namespace, answer := range map[string]string{first: "first", second: "second"} {
		function := framework.Function{Name: "here", Runtime: "nodejs22", Source: fmt.Sprintf("module.exports.main = () => %q", answer)}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	rule := framework.APIRule{Name: "here", Host: host, Service: "here"}
	for _, namespace := range []string{first, second} {
		require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "here", "Running", "True", 2*time.Minute))
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), first, rule.YAML()))
	require.NoError(t, cluster.AwaitState(t.Context(), first, "here", "Ready", "", ready))
	created, err := get(t.Context(), cluster, first, framework.APIRuleGVK, "here")
	require.NoError(t, err)
	time.Sleep(time.Until(created.CreationTimestamp.Add(2 * time.Second))) // of two APIRules of the same second the first by name has precedence
	require.NoError(t, cluster.ApplyYAML(t.Context(), second, rule.YAML()))
	require.NoError(t, cluster.AwaitState(t.Context(), second, "here", "Error", "Host is occupied by another APIRule "+first+"/here", ready))

	require.NoError(t, outside.AwaitStatus(t.Context(), host, http.StatusOK, ready))
	_, answer, err := outside.Get(t.Context(), host, "")
	require.NoError(t, err)
	require.Equal(t, "first", answer)

	gone(t, cluster, first, framework.APIRuleGVK, "here")
	require.NoError(t, cluster.AwaitState(t.Context(), second, "here", "Ready", "", ready), "the host is free")
	require.NoError(t, framework.Await(t.Context(), ready, "the second to answer", func(ctx context.Context) (bool, error) {
		_, answer, err := outside.Get(ctx, host, "")
		return answer == "second", err
	}))
}

// requireRouteOf checks that the HTTPRoute belongs to the APIRule, and that the Gateway accepts it.
func requireRouteOf(t *testing.T, cluster *framework.Cluster, namespace, name string) {
	t.Helper()
	rule, err := get(t.Context(), cluster, namespace, framework.APIRuleGVK, name)
	require.NoError(t, err)
	route, err := get(t.Context(), cluster, namespace, framework.HTTPRouteGVK, name)
	require.NoError(t, err)
	require.Len(t, route.OwnerReferences, 1)
	require.Equal(t, rule.UID, route.OwnerReferences[0].UID)
}

// requireWokenAfter checks that the Function was asleep until then.
func requireWokenAfter(t *testing.T, replicas *framework.Replicas, asked time.Time) {
	t.Helper()
	require.Eventually(t, func() bool { return len(replicas.Moves()) > 1 }, time.Minute, 100*time.Millisecond)
	moves := replicas.Moves()
	require.Zero(t, moves[0].Replicas)
	require.Positive(t, moves[1].Replicas)
	require.True(t, moves[1].At.After(asked), "unauthorized requests must not wake the Function: %v", moves)
}

func get(
	ctx context.Context, cluster *framework.Cluster, namespace string, kind schema.GroupVersionKind, name string,
) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object, cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

func gone(t *testing.T, cluster *framework.Cluster, namespace string, kind schema.GroupVersionKind, name string) {
	t.Helper()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(kind)
	require.NoError(t, cluster.Delete(t.Context(), object))
}
