package apirules

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// pod is the only one of a Function, or none.
type pod struct{ endpoints []routing.Endpoint }

// Watch implements activate.Endpoints.
func (p pod) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	apply(p.endpoints)
	<-ctx.Done()
	return nil
}

// Condition implements activate.Functions.
func (p pod) Condition(types.NamespacedName) activator.Condition { return activator.Condition{} }

// withActivators is a gateway whose Function has a pod that serves with handle, or sleeps without.
func withActivators(t *testing.T, timeout time.Duration, handle http.HandlerFunc) *fixture {
	t.Helper()
	var p pod
	if handle != nil {
		server := httptest.NewServer(handle)
		t.Cleanup(server.Close)
		p.endpoints = []routing.Endpoint{{Address: server.Listener.Addr().String(), Ready: true, Function: true}}
	}
	options, table := activator.DefaultOptions(), activator.NewTable()
	options.AllowLoopback = true
	activators := activator.New(activator.Deps{
		Endpoints: p, Functions: p, Log: logr.Discard(),
		Begin: func(function types.NamespacedName) activator.Request { return table.Begin(function) },
	}, options)
	t.Cleanup(activators.Close)
	f := start(t, func(d *Deps, _ *Options) {
		d.Activate = func(w http.ResponseWriter, r *http.Request, function types.NamespacedName, wait time.Duration) {
			activators.Serve(w, r, function, activator.Call{Wait: wait, Stay: true})
		}
	})
	f.serve(shopHost, within(timeout, f.function.address, "/*"))
	return f
}

func TestAFunctionThatIsAwakeAnswersThroughItsActivator(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	f := withActivators(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = io.WriteString(w, "price")
	})
	answer := f.get("/", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Host", "forged", "Rouse-Via", "eventbridge")
	require.Equal(t, "price", answer.text)
	require.False(t, answer.Close, "the caller has no other way")
	require.Empty(t, corsHeaders(answer.Header))
	header := <-got
	require.Equal(t, []string{shopHost}, header.Values("X-Forwarded-Host"))
	require.Equal(t, []string{"192.0.2.1", "127.0.0.1"}, header.Values("X-Forwarded-For"))
	require.Equal(t, []string{activation.ViaGateway}, header.Values(activation.HeaderVia))
}

func TestAFunctionThatDoesNotWakeInTimeIsUnavailable(t *testing.T) {
	t.Parallel()
	f := withActivators(t, 20*time.Millisecond, nil)
	answer := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Equal(t, "5", answer.Header.Get("Retry-After"))
	require.Equal(t, activation.RefusedTimeout, answer.Header.Get(activation.HeaderRefused))
}

func TestAPodThatDoesNotAnswerInTimeIs504(t *testing.T) {
	t.Parallel()
	f := withActivators(t, time.Second, hangs)
	answer := f.get("/")
	require.Equal(t, http.StatusGatewayTimeout, answer.StatusCode)
	require.Equal(t, "upstream request timeout", answer.text)
}

func TestReservedPathsOfAFunctionWakeNobodyAndTellNothing(t *testing.T) {
	t.Parallel()
	f := withActivators(t, time.Minute, nil)
	require.Equal(t, "OK", f.get("/healthz").text)
	for _, path := range []string{"/metrics", "/%6detrics", activation.LoadPath, "/.well-known/rouse/./load", "/.well-known%2frouse/load"} {
		require.Equal(t, http.StatusNotFound, f.get(path).StatusCode, path)
	}
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	require.Equal(t, "catalog", f.get("/metrics").text, "of another Service they are paths like others")
}

func TestAWebSocketOfAFunctionHasNoLimit(t *testing.T) {
	t.Parallel()
	f := withActivators(t, time.Second, echo)
	f.requireEchoAfter(1500 * time.Millisecond)
}

// echo upgrades a connection, and sends back what comes.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.Copy(conn, both)
}

func (f *fixture) requireEchoAfter(pause time.Duration) {
	f.t.Helper()
	conn := f.dial()
	_, err := io.WriteString(conn, "GET /echo HTTP/1.1\r\nHost: shop.example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
	require.NoError(f.t, err)
	both := bufio.NewReader(conn)
	response, err := http.ReadResponse(both, nil)
	require.NoError(f.t, err)
	require.NoError(f.t, response.Body.Close())
	require.Equal(f.t, http.StatusSwitchingProtocols, response.StatusCode)
	time.Sleep(pause)
	_, err = io.WriteString(conn, "still here")
	require.NoError(f.t, err)
	got := make([]byte, len("still here"))
	_, err = io.ReadFull(both, got)
	require.NoError(f.t, err)
	require.Equal(f.t, "still here", string(got))
}

func TestAClosedRuleOfAFunctionDoesNotWakeIt(t *testing.T) {
	t.Parallel()
	f := start(t)
	closed := open(f.function.address, "/*", v2.Method(http.MethodGet))
	closed.Closed = true
	f.serve(shopHost, closed)
	require.Equal(t, http.StatusServiceUnavailable, f.get("/").StatusCode)
	require.Zero(t, f.function.requests())
}
