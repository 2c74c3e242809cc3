package golang_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// lasting is a handler whose calls last as long as their clients want, or longer.
func lasting(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hang" {
		select {}
	}
	_, _ = io.WriteString(w, "x")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

type podLoad struct{ Requests, Running, ViaGateway, ViaEventbridge int }

// requireLoad waits until the server says that this is its load.
func requireLoad(t *testing.T, server *started, want podLoad) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.url+"/.well-known/rouse/load", http.NoBody)
		require.NoError(c, err)
		answer, err := loopback.Default.Transport.RoundTrip(request)
		require.NoError(c, err)
		defer func() { _ = answer.Body.Close() }()
		var got podLoad
		require.NoError(c, json.NewDecoder(answer.Body).Decode(&got))
		require.Equal(c, want, got)
	}, patience, 10*time.Millisecond)
}

// sent writes a request to a connection of its own.
func (s *started) sent(t *testing.T, request string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return conn
}

func TestAStreamIsUnderWayUntilItEnds(t *testing.T) {
	t.Parallel()
	server := start(t, "lasting", map[string]string{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.url, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Rouse-Via", "gateway")
	answer, err := loopback.Default.Transport.RoundTrip(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	requireLoad(t, server, podLoad{Requests: 1, Running: 1, ViaGateway: 1})
	cancel()
	requireLoad(t, server, podLoad{Requests: 1})
}

func TestACallWhoseClientHasGoneIsUnderWayForNoLongerThanItsTimeout(t *testing.T) {
	t.Parallel()
	server := start(t, "lasting", map[string]string{"FUNC_TIMEOUT": "0.5"})
	require.NoError(t, server.sent(t, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n").Close())
	requireLoad(t, server, podLoad{Requests: 1})
	require.NoError(t, server.process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, server.wait(t))
}

func TestABodyThatDoesNotComeIsAnsweredForAtTheTimeout(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/plain", "application/cloudevents+json"} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			server := start(t, "text/event", map[string]string{"FUNC_TIMEOUT": "0.5"})
			conn := server.sent(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nContent-Type: "+contentType+"\r\n\r\n{")
			first := make([]byte, len("HTTP/1.1 408"))
			_, err := io.ReadFull(conn, first)
			require.NoError(t, err)
			require.Equal(t, "HTTP/1.1 408", string(first))
			requireLoad(t, server, podLoad{Requests: 1})
		})
	}
}
