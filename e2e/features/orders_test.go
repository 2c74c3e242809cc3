//go:build e2e

package features

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// The order chain, exactly as samples/orders has it: order.received wakes pricing, whose order.priced wakes
// invoicing, whose order.invoiced wakes recorder; then all three sleep again.
func TestTheOrderChainRunsFromZeroAndGoesBackToZero(t *testing.T) {
	cluster, err := framework.Connect()
	require.NoError(t, err)
	chain := framework.Orders(filepath.Join("..", "..", "samples", "orders"))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, chain.Namespace)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, chain.Namespace))
	})
	require.NoError(t, chain.Start(t.Context(), cluster))

	lines := make(chan string, 1)
	go func() { lines <- firstLine(t.Context(), cluster, chain.Namespace, "recorder") }()
	require.NoError(t, chain.PublishOrder(t.Context(), cluster, "e2e-1"))

	var record struct {
		Event string `json:"event"`
		Order string `json:"order"`
	}
	line := <-lines
	require.NoError(t, json.Unmarshal([]byte(line), &record), line)
	require.Equal(t, "order.invoiced", record.Event)
	require.Equal(t, "e2e-1", record.Order)
	for _, function := range chain.Functions {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), chain.Namespace, function, 0, asleep))
		balance, err := cluster.Balance(t.Context(), chain.Namespace, function)
		require.NoError(t, err)
		require.Equal(t, framework.Balance{}, balance, function)
	}
}

// firstLine waits for the first JSON line about an order that a Function logs.
func firstLine(ctx context.Context, cluster *framework.Cluster, namespace, function string) string {
	var found string
	err := framework.Await(ctx, 2*time.Minute, "a line of "+function, func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		if err := cluster.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{framework.FunctionLabel: function}); err != nil {
			return false, err
		}
		for _, pod := range pods.Items {
			text, err := cluster.Logs(ctx, namespace, pod.Name, "function", 0)
			if err != nil {
				return false, err
			}
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, "{") && strings.Contains(line, `"order"`) {
					found = line
					return true, nil
				}
			}
		}
		return false, nil
	})
	if err != nil {
		return err.Error()
	}
	return found
}
