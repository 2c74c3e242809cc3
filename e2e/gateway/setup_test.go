//go:build e2e

package gateway

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

// serveAPIRules lets the installed release serve them, once for all tests.
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
	return cluster, outside, newNamespace(t, cluster)
}

func newNamespace(t *testing.T, cluster *framework.Cluster) string {
	t.Helper()
	namespace, err := cluster.CreateNamespace(t.Context(), "gateway")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if t.Failed() {
			cluster.Dump(ctx, os.Stdout, namespace)
		}
		require.NoError(t, cluster.DeleteNamespace(ctx, namespace))
	})
	return namespace
}
