//go:build e2e

package features

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/orders"
	"github.com/rouse-run/rouse/e2e/verbs"
)

// The order chain, exactly as samples/orders has it, and by the same proof as in local mode.
func TestTheOrderChainRunsFromZeroAndGoesBackToZero(t *testing.T) {
	cluster, err := framework.Connect()
	require.NoError(t, err)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	chain := framework.Orders(filepath.Join(root, "samples", "orders"))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, chain.Namespace)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, chain.Namespace))
	})
	require.NoError(t, chain.Start(t.Context(), cluster))
	program, err := verbs.Build(t.Context(), root, t.TempDir())
	require.NoError(t, err)
	rouse := verbs.Rouse{Program: program, Where: []string{"--kubeconfig", os.Getenv("KUBECONFIG")}}
	orders.Prove(t, rouse, chain.Folder, "e2e")
	for _, function := range chain.Functions {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), chain.Namespace, function, 0, asleep))
		balance, err := cluster.Balance(t.Context(), chain.Namespace, function)
		require.NoError(t, err)
		require.Equal(t, framework.Balance{}, balance, function)
	}
}
