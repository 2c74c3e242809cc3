package orders_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/orders"
	"github.com/rouse-run/rouse/e2e/verbs"
)

func TestTheOrderChainRunsInLocalMode(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	folder := filepath.Join(root, "samples", "orders")
	program, err := verbs.Build(t.Context(), root, t.TempDir())
	require.NoError(t, err)
	rouse := verbs.Rouse{
		Program: program, Where: []string{"--dir", folder}, Env: []string{"XDG_STATE_HOME=" + t.TempDir()},
	}
	startLocalMode(t, rouse, folder)
	orders.Prove(t, rouse, folder, "local")
}

// startLocalMode runs the folder until the test ends. The verbs wait until it can be found.
func startLocalMode(t *testing.T, rouse verbs.Rouse, folder string) {
	t.Helper()
	alone := rouse
	alone.Where = nil
	dev := alone.Command(context.WithoutCancel(t.Context()), "dev", folder, "--plain", "--cooldown", "1s")
	var out bytes.Buffer
	dev.Stdout, dev.Stderr = &out, &out
	require.NoError(t, dev.Start())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the local mode said:\n%s", out.String())
		}
	})
	t.Cleanup(func() { endLocalMode(t, dev) })
}

func endLocalMode(t *testing.T, dev *exec.Cmd) {
	t.Helper()
	require.NoError(t, dev.Process.Signal(syscall.SIGINT))
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		_ = dev.Process.Kill()
		require.FailNow(t, "the local mode does not end")
	}
}
