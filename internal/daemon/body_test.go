package daemon

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/require"
)

func TestARequestWithoutABodyIsAnsweredForeverAndOneWithABodyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := WithoutBody(w, r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		_, _ = io.WriteString(w, "streams")
	})
	for name, tc := range map[string]struct {
		request string
		refused bool
	}{
		"none":                        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false},
		"an empty one":                {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", false},
		"one that does not come":      {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n", true},
		"one that is waited for":      {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n", true},
		"chunks that do not come":     {"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", true},
		"more than net/http discards": {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n{", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := serving(t, handler)
			_, err := io.WriteString(conn, tc.request)
			require.NoError(t, err)
			reader := bufio.NewReader(conn)
			response, err := http.ReadResponse(reader, nil)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			if !tc.refused {
				require.Equal(t, "streams", string(text))
				require.False(t, response.Close)
				return
			}
			require.Equal(t, http.StatusBadRequest, response.StatusCode)
			require.Equal(t, ErrBody.Error()+"\n", string(text))
			require.True(t, response.Close)
			_, err = reader.ReadByte()
			require.ErrorIs(t, err, io.EOF, "the connection is closed")
		})
	}
}

// serving returns a connection to a server that never gives up a read by itself.
func serving(t *testing.T, handler http.Handler) net.Conn {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, Server{Name: "test", Listener: listener, ReadTimeout: time.Hour, Handler: handler}, testr.New(t))
	}()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		require.NoError(t, <-served)
	})
	return conn
}
