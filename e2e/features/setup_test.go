//go:build e2e

package features

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

const asleep = 90 * time.Second // how long a Function with fast settings may take to fall asleep

// connect opens the cluster, makes a namespace for the feature, and dumps both when it fails.
func connect(t *testing.T) (*framework.Cluster, string) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	namespace, err := cluster.CreateNamespace(t.Context(), "e2e")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, namespace)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, namespace))
	})
	return cluster, namespace
}

// sleeper applies a Function that sleeps at zero with its Subscription, and waits until both are ready and
// the Function sleeps.
func sleeper(t *testing.T, cluster *framework.Cluster, namespace, eventType string, function framework.Function) {
	t.Helper()
	function.Asleep = true
	if function.Annotations == nil {
		function.Annotations = framework.Fast()
	}
	if function.Runtime == "" {
		function.Runtime = "nodejs22"
	}
	subscription := framework.Subscription{Name: function.Name, Namespace: namespace, Type: eventType, Sink: function.Name}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()+"---\n"+subscription.YAML()))
	require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, function.Name, "Running", "True", 2*time.Minute))
	require.NoError(t, cluster.AwaitSubscribed(t.Context(), namespace, function.Name))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, function.Name, 0, asleep))
}

// publishMany publishes n events and returns their keys. Each event's data is {"key": key}.
func publishMany(t *testing.T, cluster *framework.Cluster, eventType, prefix string, n int) []string {
	t.Helper()
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%04d", prefix, i)
	}
	require.NoError(t, publishAll(t.Context(), cluster, eventType, keys))
	return keys
}
