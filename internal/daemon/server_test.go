package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/require"
)

func TestServeFinishesABusyRequestAfterTheContextEnds(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	entered, release := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, Server{
			Name: "test", Listener: listener, DrainTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(entered)
				<-release
				_, _ = io.WriteString(w, "done")
			}),
		}, testr.New(t))
	}()

	answer := make(chan string, 1)
	go func() { answer <- get(t, listener.Addr().String()) }()
	<-entered
	cancel()
	close(release)

	require.Equal(t, "done", <-answer)
	require.NoError(t, <-served)
}

func TestServeCutsARequestThatOutlastsTheDrainTimeout(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	entered := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, Server{
			Name: "test", Listener: listener, DrainTimeout: time.Millisecond,
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
			}),
		}, testr.New(t))
	}()
	go func() { _ = get(t, listener.Addr().String()) }()
	<-entered
	cancel()

	require.ErrorContains(t, <-served, "test: drain")
}

func TestServeBoundsWhatAClientMaySend(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	read := make(chan error, 1)
	go func() {
		served <- Serve(ctx, Server{
			Name: "test", Listener: listener, ReadTimeout: 50 * time.Millisecond,
			Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				read <- err
			}),
		}, testr.New(t))
	}()

	for name, tc := range map[string]struct{ request, want string }{
		"a header that is too large":  {"GET / HTTP/1.1\r\nHost: h\r\nNote: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		"a body that does not arrive": {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{", "HTTP/1.1 200 "},
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
		require.NoError(t, err, name)
		_, err = io.WriteString(conn, tc.request)
		require.NoError(t, err, name)
		status := make([]byte, len(tc.want))
		_, err = io.ReadFull(conn, status)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, string(status), name)
		require.NoError(t, conn.Close())
	}
	require.ErrorIs(t, <-read, os.ErrDeadlineExceeded)
	cancel()
	require.NoError(t, <-served)
}

func TestServeNamesTheAddressItCannotListenOn(t *testing.T) {
	t.Parallel()
	taken := listen(t)
	err := Serve(t.Context(), Server{Name: "metrics", Addr: taken.Addr().String(), Handler: http.NotFoundHandler()}, testr.New(t))
	require.ErrorContains(t, err, "metrics: listen on "+taken.Addr().String())
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func get(t *testing.T, address string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
