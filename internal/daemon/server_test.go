package daemon

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
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

func TestServeLimitsTheInputOfClients(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request, want string
		read          error // by the handler; io.EOF where it is not called
	}{
		"a header that is too large": {
			"GET / HTTP/1.1\r\nHost: h\r\nNote: " + strings.Repeat("x", 21<<10) + "\r\n\r\n", "HTTP/1.1 431 ", io.EOF,
		},
		"a header of too many lines": {
			"GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a:\r\n", 127) + "\r\n", "HTTP/1.1 431 ", io.EOF,
		},
		"a header of many lines": {"GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a:\r\n", 126) + "\r\n", "HTTP/1.1 200 ", nil},
		"a body of many lines": {
			"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n" + strings.Repeat("\n", 1000), "HTTP/1.1 200 ", nil,
		},
		"a body that does not arrive": {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{", "HTTP/1.1 200 ", os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				listener := &pipes{opened: make(chan net.Conn), closed: make(chan struct{})}
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan error, 1)
				read := io.EOF
				go func() {
					served <- Serve(ctx, Server{
						Name: "test", Listener: listener, ReadTimeout: time.Second,
						Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
							_, read = io.ReadAll(r.Body)
						}),
					}, testr.New(t))
				}()

				conn := listener.open()
				go func() { _, _ = io.WriteString(conn, tc.request) }() // the server does not read it to its end
				status := make([]byte, len(tc.want))
				_, err := io.ReadFull(conn, status)
				require.NoError(t, err)
				require.Equal(t, tc.want, string(status))
				require.NoError(t, conn.Close())
				cancel()
				require.NoError(t, <-served)
				require.ErrorIs(t, read, tc.read)
			})
		})
	}
}

// pipes are connections inside a synctest bubble, with virtual time.
type pipes struct {
	opened chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) open() net.Conn {
	client, server := net.Pipe()
	p.opened <- server
	return client
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.opened:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

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
	response, err := loopback.Default.Do(request)
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

func TestStreamWithoutReadDeadlineRejectsRequestsWithABody(t *testing.T) {
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
		"none":                               {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false},
		"an empty one":                       {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", false},
		"a body that does not arrive":        {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n", true},
		"a body that waits for 100-continue": {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n", true},
		"chunks that do not arrive":          {"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", true},
		"more than net/http discards":        {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n{", true},
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

// serving returns a connection to a server without a read timeout.
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
