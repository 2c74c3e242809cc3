//go:build e2e

package features

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/verbs"
)

// buildRouse makes the command rouse, which acts on a namespace of the cluster.
func buildRouse(t *testing.T, namespace string) func(args ...string) (out string) {
	t.Helper()
	program, err := verbs.Build(t.Context(), filepath.Join("..", ".."), t.TempDir())
	require.NoError(t, err)
	command := verbs.Rouse{Program: program, Where: []string{"--kubeconfig", os.Getenv("KUBECONFIG"), "-n", namespace}}
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
