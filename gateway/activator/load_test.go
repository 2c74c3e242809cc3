package activator

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

var loadPrice = types.NamespacedName{Namespace: "shop", Name: "price"}

// stream returns a function that reads the next line that says something of price.
func stream(t *testing.T, table *Table) func() activation.FunctionLoad {
	t.Helper()
	server := httptest.NewServer(table)
	t.Cleanup(server.Close)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	answer, err := loopback.Default.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewScanner(answer.Body)
	return func() activation.FunctionLoad {
		for lines.Scan() {
			loads, err := activation.DecodeGatewayLoads(lines.Bytes())
			require.NoError(t, err)
			if load, ok := loads[loadPrice]; ok {
				return load
			}
		}
		require.NoError(t, lines.Err())
		require.Fail(t, "the stream has ended")
		return activation.FunctionLoad{}
	}
}

func TestARequestCountsOnceFromItsBeginningToItsEnd(t *testing.T) {
	t.Parallel()
	table := NewTable()
	request := table.Begin(loadPrice)
	require.Equal(t, map[types.NamespacedName]*activation.FunctionLoad{loadPrice: {Requests: 1, Waiting: 1}}, table.functions)
	request.Run()
	request.Run()
	require.Equal(t, &activation.FunctionLoad{Requests: 1, Running: 1}, table.functions[loadPrice])
	request.Wait() // its pod has refused it
	require.Equal(t, &activation.FunctionLoad{Requests: 1, Waiting: 1}, table.functions[loadPrice])
	request.Run()
	request.End()
	require.Equal(t, &activation.FunctionLoad{Requests: 1}, table.functions[loadPrice])
	waiting, running := table.Totals()
	require.Zero(t, waiting+running)
}

func TestAStreamBeginsWithAllAndGoesOnWithChanges(t *testing.T) {
	t.Parallel()
	table := NewTable()
	first := table.Begin(loadPrice)
	next := stream(t, table)
	require.Equal(t, activation.FunctionLoad{Requests: 1, Waiting: 1}, next())
	first.Run()
	require.Equal(t, activation.FunctionLoad{Requests: 1, Running: 1}, next())
	first.End()
	require.Equal(t, activation.FunctionLoad{Requests: 1}, next())
	table.Begin(loadPrice).End() // it is over before a line is due, and still moves the count
	require.Equal(t, uint64(2), next().Requests)
}

func TestASlowReaderGetsTheNewestCountsInOneEntry(t *testing.T) {
	t.Parallel()
	table := NewTable()
	watched := table.watch()
	for range 1000 {
		table.Begin(loadPrice).End()
	}
	require.Len(t, watched.changed, 1)
	require.Equal(t, map[string]activation.FunctionLoad{"shop/price": {Requests: 1000}}, table.take(watched).Functions)
	require.Empty(t, table.take(watched).Functions)
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	table := NewTable()
	for range mostStreams {
		require.NotNil(t, table.watch())
	}
	answer := httptest.NewRecorder()
	table.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/load", http.NoBody))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
}

func TestRequestsThatAnnounceABodyTakeNoStream(t *testing.T) {
	t.Parallel()
	table := NewTable()
	server := httptest.NewServer(table)
	t.Cleanup(server.Close)
	for range mostStreams + 1 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
		require.NoError(t, err)
		answer, err := io.ReadAll(conn) // to the end of the connection
		require.NoError(t, err)
		require.Contains(t, string(answer), "HTTP/1.1 400 ")
		require.Contains(t, string(answer), daemon.ErrBody.Error())
	}
	table.Begin(price)
	require.Equal(t, uint64(1), stream(t, table)().Requests)
}

func TestATableIsIdleWhenItsLastRequestEnds(t *testing.T) {
	t.Parallel()
	table := NewTable()
	<-table.Idle()
	one, other := table.Begin(loadPrice), table.Begin(loadPrice)
	idle := table.Idle()
	one.End()
	select {
	case <-idle:
		require.Fail(t, "a request is left")
	default:
	}
	other.End()
	<-idle
}

func TestFunctionsThatAreGoneAreForgottenWithTheirLastRequest(t *testing.T) {
	t.Parallel()
	table := NewTable()
	request := table.Begin(loadPrice)
	none := func(types.NamespacedName) bool { return false }
	table.Keep(none)
	require.Contains(t, table.functions, loadPrice)
	request.End()
	table.Keep(func(types.NamespacedName) bool { return true })
	require.Contains(t, table.functions, loadPrice)
	table.Keep(none)
	require.Empty(t, table.functions)
}
