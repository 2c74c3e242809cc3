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
	cluster, chain, rouse := startChain(t, framework.Orders, "orders")
	orders.Prove(t, rouse, chain.Folder, "e2e")
	requireNothingLeft(t, cluster, chain)
}

// The chain with its entrance for HTTP, as samples/shop has it but for the APIRule.
func TestTheShopTakesOrdersOverHTTPAndShowsThem(t *testing.T) {
	cluster, chain, rouse := startChain(t, framework.Shop, "shop")
	orders.ProveShop(t, rouse, orders.CallByInvoke(rouse), "e2e")

	caller := startCaller(t, cluster, chain.Namespace)
	answers, err := caller.Do(t.Context(),
		framework.Call{URL: "http://shop.orders/orders", Method: "POST", Body: `{"lines": []}`},
		framework.Call{URL: "http://status.orders/orders/e2e-tea"})
	require.NoError(t, err)
	require.Equal(t, 400, answers[0].Status, "%+v", answers[0])
	require.Equal(t, 200, answers[1].Status, "%+v", answers[1])
	require.Contains(t, answers[1].Text, "Order e2e-tea: invoiced")

	require.NoError(t, cluster.FallAsleepSoon(t.Context(), chain.Namespace, "status"))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), chain.Namespace, "status", 0, asleep))
	requireNothingLeft(t, cluster, chain)
}

// startChain starts a sample, which ends with the test.
func startChain(t *testing.T, of func(folder string) framework.Chain, sample string) (*framework.Cluster, framework.Chain, verbs.Rouse) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	chain := of(filepath.Join(root, "samples", sample))
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
	return cluster, chain, verbs.Rouse{Program: program, Where: []string{"--kubeconfig", os.Getenv("KUBECONFIG")}}
}

// requireNothingLeft waits until the Functions sleep, and finds no event that waits.
func requireNothingLeft(t *testing.T, cluster *framework.Cluster, chain framework.Chain) {
	t.Helper()
	for _, function := range chain.Functions {
		require.NoError(t, cluster.AwaitReplicas(t.Context(), chain.Namespace, function, 0, asleep))
	}
	for _, subscription := range chain.Subscriptions {
		balance, err := cluster.Balance(t.Context(), chain.Namespace, subscription)
		require.NoError(t, err)
		require.Equal(t, framework.Balance{}, balance, subscription)
	}
}
