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
	"github.com/rouse-run/rouse/internal/testing/transcript"
)

// Every command of docs/tutorial.md, as a reader runs them: first those on this machine, then those that take the same
// folder to the cluster.
func TestTheTutorialEndsInACluster(t *testing.T) {
	t.Parallel()
	cluster, err := framework.Connect()
	require.NoError(t, err)
	docs := filepath.Join("..", "..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "tutorial.md"))
	require.NoError(t, err)
	steps, err := transcript.Parse(string(page), "cluster")
	require.NoError(t, err)

	const namespace = "orders" // that of samples/orders
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, namespace)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, namespace))
	})
	root := filepath.Join(t.TempDir(), "rouse")
	require.NoError(t, transcript.Checkout(filepath.Dir(docs), root))
	require.NoError(t, transcript.Play(t.Context(), steps, transcript.Options{
		Name: "docs/tutorial.md", Dir: root, Timeout: 8 * time.Minute,
		Env:      append(transcript.Environment(t.TempDir()), "KUBECONFIG="+os.Getenv("KUBECONFIG")),
		Progress: func(s transcript.Step) { t.Logf("docs/tutorial.md:%d", s.Line) },
	}))
}
