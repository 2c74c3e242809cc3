package orders_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/e2e/orders"
	"github.com/rouse-run/rouse/e2e/verbs"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/testing/loopback"
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
	startLocalMode(t, rouse, folder, time.Second)
	orders.Prove(t, rouse, folder, "local")
}

func TestTheShopTakesOrdersOverHTTPInLocalMode(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	folder := filepath.Join(root, "samples", "shop")
	program, err := verbs.Build(t.Context(), root, t.TempDir())
	require.NoError(t, err)
	rouse := verbs.Rouse{
		Program: program, Where: []string{"--dir", folder}, Env: []string{"XDG_STATE_HOME=" + t.TempDir()},
	}
	startLocalMode(t, rouse, folder, 20*time.Second) // once asleep, the Function of the page has lost the order
	orders.ProveShop(t, rouse, callByAPIRule(t, rouse), "local")
}

// callByAPIRule calls like a customer: with the host only, so that the APIRule selects the Function.
func callByAPIRule(t *testing.T, rouse verbs.Rouse) orders.Call {
	t.Helper()
	var exposed []string
	require.Eventually(t, func() bool {
		var functions []struct{ Exposed []string }
		_ = rouse.Read(t.Context(), &functions, "functions") // fails until the local mode has announced itself
		for _, function := range functions {
			exposed = append(exposed, function.Exposed...)
		}
		return len(exposed) > 0
	}, time.Minute, 100*time.Millisecond, "no Function has a URL of the APIRule")
	base, err := url.Parse(strings.TrimSuffix(exposed[0], "/{*}"))
	require.NoError(t, err)
	require.Equal(t, "orders.localhost", base.Hostname())
	return func(ctx context.Context, _, path, body string) ([]byte, error) {
		method := http.MethodGet
		if body != "" {
			method = http.MethodPost
		}
		// Not every resolver maps names below localhost to loopback.
		request, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1:"+base.Port()+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Host = base.Host
		request.Header.Set("Content-Type", "application/json")
		answer, err := loopback.Default.Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode >= http.StatusBadRequest {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return text, err
	}
}

// startLocalMode runs the folder until the end of the test. Commands retry until it has announced itself.
func startLocalMode(t *testing.T, rouse verbs.Rouse, folder string, cooldown time.Duration) {
	t.Helper()
	alone := rouse
	alone.Where = nil
	dev := alone.Command(context.WithoutCancel(t.Context()), "dev", folder, "--plain", "--cooldown", cooldown.String())
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

func TestTheAPIRuleOfTheShopLetsInOrdersAndReaders(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "samples", "shop", "apirule.yaml"))
	require.NoError(t, err)
	var rule v2.APIRule
	require.NoError(t, yaml.UnmarshalStrict(text, &rule))
	function := apirule.ServiceInfo{Selects: true, Wakes: true, Address: "10.0.0.1", Ports: []int32{80}}
	exposed := apirule.Decide([]*v2.APIRule{&rule}, &apirule.Objects{
		Gateways: map[types.NamespacedName]apirule.Gateway{{Namespace: "kyma-system", Name: "kyma-gateway"}: {Hosts: []string{"*.example.com"}}},
		Services: map[types.NamespacedName]apirule.ServiceInfo{{Namespace: "orders", Name: "shop"}: function, {Namespace: "orders", Name: "status"}: function},
	})
	require.Len(t, exposed, 1)
	require.Empty(t, exposed[0].Problems)
	require.Equal(t, "orders.example.com", exposed[0].Host)
	require.Len(t, exposed[0].Rules, 2)
	require.Equal(t, "shop", exposed[0].Rules[0].Backend.Service.Name)
	require.Equal(t, "status", exposed[0].Rules[1].Backend.Service.Name)
	require.NotContains(t, exposed[0].Rules[1].Spec.Methods, v2.Method("POST"), "nobody from outside may send events to the page")
}
