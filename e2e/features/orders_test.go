//go:build e2e

package features

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/orders"
	"github.com/rouse-run/rouse/e2e/verbs"
	"github.com/rouse-run/rouse/internal/testing/transcript"
)

// The order chain, exactly as in samples/orders, with the same test as in local mode.
func TestTheOrderChainRunsFromZeroAndGoesBackToZero(t *testing.T) {
	cluster, chain, rouse := startChain(t, framework.Orders, "orders")
	orders.Prove(t, rouse, chain.Folder, "e2e")
	requireNothingLeft(t, cluster, chain)
}

// The chain with its HTTP entrance, as in samples/shop except for the APIRule.
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

// startChain starts a sample, which is removed after the test.
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

// requireNothingLeft waits until the Functions sleep, and checks that no event is pending.
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

// Every command of docs/tutorial.md, as a reader runs them: first the local ones, then those that apply the same folder
// to the cluster.
func TestTheTutorialEndsInACluster(t *testing.T) {
	t.Parallel()
	playPage(t, "tutorial.md", "orders", stepsOf(t, "tutorial.md")) // the namespace of samples/orders
}

// The symptoms that only a cluster can have are seen and mended as docs/troubleshooting.md says.
func TestSymptomsOfAClusterAreSeenAndMendedAsThePageSays(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, "troubleshooting.md")
	first := steps[0] // it builds the command
	steps = slices.DeleteFunc(steps, func(s transcript.Step) bool { return !s.Tagged(clusterTag) })
	require.NotEmpty(t, steps)
	playPage(t, "troubleshooting.md", "sick", append([]transcript.Step{first}, steps...))
}

// clusterTag marks the commands of a page that need a cluster.
const clusterTag = "cluster"

const pagesFolder = "../../docs"

func stepsOf(t *testing.T, page string) []transcript.Step {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(pagesFolder, page))
	require.NoError(t, err)
	steps, err := transcript.Parse(string(text), clusterTag)
	require.NoError(t, err)
	return steps
}

// playPage runs steps of a page, which use a namespace, in a copy of this repository.
func playPage(t *testing.T, page, namespace string, steps []transcript.Step) {
	t.Helper()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, namespace)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, namespace))
	})
	root := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, transcript.Checkout(filepath.Dir(pagesFolder), root))
	require.NoError(t, transcript.Play(t.Context(), steps, transcript.Options{
		Name: "docs/" + page, Dir: root, Timeout: 8 * time.Minute,
		Env:      append(transcript.Environment(t.TempDir()), "KUBECONFIG="+os.Getenv("KUBECONFIG")),
		Progress: func(s transcript.Step) { t.Logf("docs/%s:%d", page, s.Line) },
	}))
}

// buildRouse returns a function that runs the command line in a namespace, which has to succeed.
func buildRouse(t *testing.T, namespace string) func(args ...string) (out string) {
	t.Helper()
	command := commandIn(t, namespace)
	return func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		out, err := command.Run(ctx, args...)
		require.NoError(t, err)
		return string(out)
	}
}

func TestInvokeWakesASleepingFunctionFromOutside(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	httpSleepers(t, cluster, namespace, framework.Function{Name: "outside", Runtime: "nodejs22", Source: `
module.exports.main = (event) => {
  const { 'rouse-via': via, authorization } = event.extensions.request.headers
  return [via, authorization, event.data].join(', ')
}`})
	rouse := buildRouse(t, namespace)
	for _, state := range []string{"asleep", "awake"} {
		got := rouse("invoke", "outside", "-d", "order", "-H", "content-type: text/plain", "-H", "authorization: Bearer mine")
		require.Equal(t, "gateway, Bearer mine, order", strings.TrimSpace(got), state)
	}
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "outside", 0, asleep), "it sleeps again")
}

func TestTheVerbsOfRouseActOnACluster(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	sleeper(t, cluster, namespace, "verbs.sent.v1", framework.Function{
		Name: "verbs", Max: 1,
		Source: `
module.exports.main = (event) => {
  console.log('the handler ran')
  if (event.data?.bad) event.setResponseStatus(400)
  return 'answered'
}`,
	})
	rouse := buildRouse(t, namespace)
	id := namespace + "-1"
	require.Equal(t, id+"\n", rouse("publish", "--type", "verbs.sent.v1", "--source", framework.Source, "--id", id, "--data", "{}"))
	require.Contains(t, rouse("events", "tail", "--id", id, "--kind", "delivered", "--since", "5m", "--limit", "1"), "delivered")
	require.Contains(t, rouse("trace", id), namespace+"/verbs")
	require.Equal(t, "answered", strings.TrimSpace(rouse("invoke", "verbs")))
	require.Contains(t, rouse("logs", "verbs"), "the handler ran")
	require.Contains(t, rouse("functions"), "verbs")
	require.Empty(t, rouse("dlq", "list"))

	bad := namespace + "-2"
	rouse("publish", "--type", "verbs.sent.v1", "--source", framework.Source, "--id", bad, "--data", `{"bad": true}`)
	rouse("events", "tail", "--id", bad, "--kind", "deadlettered", "--limit", "1", "--since", "5m")
	sequence := strings.TrimSpace(rouse("dlq", "list", "-o", "name"))
	require.Contains(t, rouse("dlq", "show", sequence), bad)
	require.Contains(t, rouse("dlq", "redrive", sequence), "redriven 1")
	require.Contains(t, rouse("trace", bad, "--wait", "1m"), "dead letter", "it is one again")
	require.Contains(t, rouse("dlq", "purge", "--all", "--yes"), "purged 1")
	require.Empty(t, rouse("dlq", "list"))
}
