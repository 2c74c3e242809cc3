package forward

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/endpoint"
)

// dials counts connections.
type dials struct{ made atomic.Int64 }

func (d *dials) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.made.Add(1)
	return new(net.Dialer).DialContext(ctx, network, address)
}

// send sends a request as an exchange does.
func send(ctx context.Context, transport *Transport, method, address, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://a.example"+path, body)
	if err != nil {
		return nil, err
	}
	if r.Body != nil {
		r.Body, r.ContentLength = &begun{ReadCloser: r.Body}, 1
	}
	return transport.Send(&Exchange{w: httptest.NewRecorder()}, r, address)
}

func requireText(t *testing.T, wanted string, answer *http.Response, err error) {
	t.Helper()
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, wanted, string(text))
}

func startTransport(t *testing.T) (*Transport, *dials) {
	t.Helper()
	d := &dials{}
	transport := NewTransport(d.dial, false)
	t.Cleanup(transport.CloseIdleConnections)
	return transport, d
}

func TestAConnectionIsUsedAgainWhenItsResponseWasReadToItsEnd(t *testing.T) {
	t.Parallel()
	backend := startScripted(t, scripts)
	for path, again := range map[string]bool{
		"/length": true, "/empty": true, "/chunks": true, "/trailer": true, "/nothing": true, "/interim": true,
		"/last": false, "/until": false, "/old": false, "/unexpected": false,
	} {
		transport, d := startTransport(t)
		for range 3 {
			answer, err := send(t.Context(), transport, http.MethodGet, backend.Addr().String(), path, nil)
			require.NoError(t, err, path)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err, path)
			require.NoError(t, answer.Body.Close(), path)
		}
		wanted := int64(3)
		if again {
			wanted = 1
		}
		require.Equal(t, wanted, d.made.Load(), path)
		transport.CloseIdleConnections()
	}
}

func TestAConnectionEndsWithAResponseThatWasNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	backend := startScripted(t, scripts)
	transport, d := startTransport(t)
	for range 2 {
		answer, err := send(t.Context(), transport, http.MethodGet, backend.Addr().String(), "/length", nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
	require.EqualValues(t, 2, d.made.Load())
}

// What a backend sends without a request would be read as the response to the next one.
func TestAConnectionWithBytesThatNoRequestWantedIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]string{
		"a body of 204": "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", "a second response": scripts["/length"] + scripts["/empty"],
	} {
		backend := startScripted(t, map[string]string{"/": behind})
		transport, d := startTransport(t)
		for range 2 {
			answer, err := send(t.Context(), transport, http.MethodGet, backend.Addr().String(), "/", nil)
			require.NoError(t, err, name)
			_, err = io.Copy(io.Discard, answer.Body)
			require.NoError(t, err, name)
			require.NoError(t, answer.Body.Close())
		}
		require.EqualValues(t, 2, d.made.Load(), name)
		transport.CloseIdleConnections()
	}
}

func TestAnIdleConnectionThatTheBackendHasClosedIsNotUsed(t *testing.T) {
	t.Parallel()
	transport, d := startTransport(t)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
		address, before := backend.Listener.Addr().String(), d.made.Load()
		answer, err := send(t.Context(), transport, http.MethodGet, address, "/", nil)
		requireText(t, "hello", answer, err)
		backend.CloseClientConnections()
		answer, err = send(t.Context(), transport, method, address, "/", nil)
		requireText(t, "hello", answer, err)
		require.EqualValues(t, 2, d.made.Load()-before)
		backend.Close()
	}
}

// The backend closes a connection just as it gets the second request.
func TestARequestIsRepeatedOnlyIfItMayBe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method, body string
		repeated     bool
	}{
		{http.MethodGet, "", true}, {http.MethodHead, "", true}, {http.MethodPost, "", false}, {http.MethodDelete, "", false}, {http.MethodGet, "x", false},
	} {
		backend := startScripted(t, map[string]string{"/": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "/close": closes})
		transport, d := startTransport(t)
		answer, err := send(t.Context(), transport, http.MethodGet, backend.Addr().String(), "/", nil)
		requireText(t, "", answer, err)
		var body io.Reader
		if tc.body != "" {
			body = iotest.DataErrReader(strings.NewReader(tc.body)) // as net/http reads bodies
		}
		_, err = send(t.Context(), transport, tc.method, backend.Addr().String(), "/close", body) //nolint:bodyclose // there is none
		require.Error(t, err)
		wanted := 2
		if tc.repeated { // once, as the second connection is new
			wanted = 3
		}
		require.Len(t, backend.take(), wanted, "%s %s", tc.method, tc.body)
		require.EqualValues(t, wanted-1, d.made.Load())
	}
}

func TestARequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"before a response": "", "in a body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"} {
		backend := startScripted(t, map[string]string{"/": script})
		transport, _ := startTransport(t)
		ctx, stop := context.WithCancel(t.Context())
		if script == "" {
			time.AfterFunc(10*time.Millisecond, stop)
		}
		answer, err := send(ctx, transport, http.MethodGet, backend.Addr().String(), "/", nil)
		if script != "" {
			require.NoError(t, err, name)
			_, err = io.ReadFull(answer.Body, make([]byte, 5))
			require.NoError(t, err, name)
			stop()
			_, err = io.ReadAll(answer.Body)
			require.NoError(t, answer.Body.Close())
		}
		require.Error(t, err, name)
		stop()
	}
}

// A client may send the rest of a short body only when it has seen the beginning of the response.
func TestAShortBodyThatDoesNotComeAtOnceIsAStream(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		first := make([]byte, 5)
		_, _ = io.ReadFull(r.Body, first)
		_, _ = w.Write(first)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, r.Body)
	}))
	defer backend.Close()
	front, _ := startExchanges(t, backend.Listener.Addr().String())
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", front)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(wait)))
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 11\r\n\r\nhello")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	first := make([]byte, 5)
	_, err = io.ReadFull(answer.Body, first)
	require.NoError(t, err)
	require.Equal(t, "hello", string(first))
	_, err = io.WriteString(conn, " world")
	require.NoError(t, err)
	requireText(t, " world", answer, nil)
}

func TestTheHeadOfAResponseDoesNotWaitForItsBody(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "hello")
	}))
	defer backend.Close()
	front, _ := startExchanges(t, backend.Listener.Addr().String())
	client := &http.Transport{}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front, http.NoBody)
	require.NoError(t, err)
	answer, err := client.RoundTrip(r)
	close(more)
	requireText(t, "hello", answer, err)
}

func TestAnAddressWithoutConnectionsIsForgotten(t *testing.T) {
	t.Parallel()
	backend := startScripted(t, scripts)
	synctest.Test(t, func(t *testing.T) {
		transport := NewTransport(new(net.Dialer).DialContext, false)
		address := backend.Addr().String()
		for range 2 {
			dialled, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			require.NoError(t, err)
			kept := newConn(dialled, address)
			transport.keep(kept)
			require.Same(t, kept, transport.take(address))
			transport.keep(kept)
			time.Sleep(endpoint.IdleTimeout)
			synctest.Wait()
			_, ok := transport.idle.Load(address)
			require.False(t, ok)
		}
	})
}

func TestARequestThatIsNotPlainIsLeftToTheStandardLibrary(t *testing.T) {
	t.Parallel()
	plain := func(change func(*http.Request)) bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example:80/a%20b?c=d", http.NoBody)
		require.NoError(t, err)
		r.Header["A_b"] = []string{"c\td"}
		change(r)
		return isPlain(r)
	}
	require.True(t, plain(func(*http.Request) {}))
	for name, change := range map[string]func(*http.Request){
		"CONNECT":               func(r *http.Request) { r.Method = http.MethodConnect },
		"a method with a space": func(r *http.Request) { r.Method = "A B" },
		"no host":               func(r *http.Request) { r.Host = "" },
		"a host with a line":    func(r *http.Request) { r.Host = "a\r\nb: c" },
		"an IPv6 host":          func(r *http.Request) { r.Host = "[::1]" },
		"a name with a line":    func(r *http.Request) { r.Header["A\r\nb"] = []string{"c"} },
		"a name with a colon":   func(r *http.Request) { r.Header["A:b"] = []string{"c"} },
		"an empty name":         func(r *http.Request) { r.Header[""] = []string{"c"} },
		"a value with a line":   func(r *http.Request) { r.Header["A"] = []string{"b\r\nc: d"} },
		"a value with NUL":      func(r *http.Request) { r.Header["A"] = []string{"b", strconv.Itoa(1) + "\x00"} },
		"an opaque target":      func(r *http.Request) { r.URL.Opaque = "//b\r\n" },
	} {
		require.False(t, plain(change), name)
	}
}
