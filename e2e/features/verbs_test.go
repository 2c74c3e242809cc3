//go:build e2e

package features

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

func TestTheVerbsOfRouseActOnACluster(t *testing.T) {
	cluster, namespace := connect(t)
	sleeper(t, cluster, namespace, "verbs.sent.v1", framework.Function{
		Name: "verbs", Max: 1,
		Source: "module.exports = {main: (event) => { console.log('the handler ran'); return 'answered' }}",
	})
	binary := filepath.Join(t.TempDir(), "rouse")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/rouse").CombinedOutput()
	require.NoError(t, err, string(built))
	rouse := func(args ...string) string {
		t.Helper()
		var problems strings.Builder
		command := exec.CommandContext(t.Context(), binary, append(args, "--kubeconfig", os.Getenv("KUBECONFIG"), "-n", namespace)...)
		command.Stderr = &problems
		out, err := command.Output()
		require.NoError(t, err, "rouse %v: %s", args, problems.String())
		return string(out)
	}
	id := namespace + "-1"
	require.Equal(t, id+"\n", rouse("publish", "--type", "verbs.sent.v1", "--source", "e2e", "--id", id, "--data", "{}"))
	require.Contains(t, rouse("events", "tail", "--id", id, "--kind", "delivered", "--since", "5m", "--limit", "1"), "delivered")
	require.Contains(t, rouse("trace", id), namespace+"/verbs")
	require.Equal(t, "answered", strings.TrimSpace(rouse("invoke", "verbs")))
	require.Contains(t, rouse("logs", "verbs"), "the handler ran")
	require.Contains(t, rouse("functions"), "verbs")
	require.Empty(t, rouse("dlq", "list"))
}
