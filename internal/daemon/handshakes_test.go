package daemon

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// secured is a server with TLS that returns the protocol of each request.
type secured struct {
	t       *testing.T
	address string
	client  *tls.Config
	stop    context.CancelFunc
	served  chan error
}

func serveTLS(t *testing.T, handler http.HandlerFunc, change ...func(*Server)) *secured {
	t.Helper()
	pair := loopback.Make(t, time.Time{}, "shop.example.com")
	config := pair.Server(t)
	listener := listen(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &secured{
		t: t, address: listener.Addr().String(), stop: stop, served: make(chan error, 1),
		client: &tls.Config{RootCAs: loopback.Roots(t, pair), ServerName: "shop.example.com", MinVersion: tls.VersionTLS12},
	}
	server := Server{
		Name: "test", Listener: listener, Handler: handler, DrainTimeout: time.Minute,
		TLS: func(net.Conn) *tls.Config { return config },
	}
	for _, c := range change {
		c(&server)
	}
	go func() { s.served <- Serve(ctx, server, logr.Discard()) }()
	t.Cleanup(stop)
	return s
}

// dial connects with one of the protocols.
func (s *secured) dial(protocols ...string) *tls.Conn {
	s.t.Helper()
	config := s.client.Clone()
	config.NextProtos = protocols
	conn, err := (&tls.Dialer{Config: config}).DialContext(s.t.Context(), "tcp", s.address)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	secure, ok := conn.(*tls.Conn)
	require.True(s.t, ok)
	return secure
}

func (s *secured) transport(http2 bool) *http.Transport {
	transport := &http.Transport{TLSClientConfig: s.client.Clone(), ForceAttemptHTTP2: http2}
	s.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// text returns the response body.
func (s *secured) text(transport *http.Transport) string {
	s.t.Helper()
	got := <-s.goText(transport)
	require.NoError(s.t, got.err)
	return got.text
}

type answered struct {
	text string
	err  error
}

// goText sends the request on another goroutine.
func (s *secured) goText(transport *http.Transport) <-chan answered {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+s.address, http.NoBody)
	require.NoError(s.t, err)
	answers := make(chan answered, 1)
	go func() {
		answer, err := transport.RoundTrip(request)
		if err != nil {
			answers <- answered{err: err}
			return
		}
		text, err := io.ReadAll(answer.Body)
		answers <- answered{string(text), errors.Join(err, answer.Body.Close())}
	}()
	return answers
}

func protocol(w http.ResponseWriter, r *http.Request) {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	_, _ = io.WriteString(w, scheme+" "+r.Proto)
}

func TestServeSpeaksHTTP1AndHTTP2OverTLS(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, protocol)
	for http2, want := range map[bool]string{false: "https HTTP/1.1", true: "https HTTP/2.0"} {
		require.Equal(t, want, s.text(s.transport(http2)))
	}
}

func TestServeSecuresOnlyTheSelectedConnections(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, protocol, func(s *Server) { s.TLS = func(net.Conn) *tls.Config { return nil } })
	require.Equal(t, "http HTTP/1.1", get(t, s.address))
}

func TestServeExplainsTLSToAnHTTPClient(t *testing.T) {
	t.Parallel()
	require.Equal(t, "This port speaks HTTPS\n", get(t, serveTLS(t, protocol).address))
}

func TestHeaderLinesInsideTLSAreBounded(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, protocol)
	for lines, want := range map[int]string{126: "HTTP/1.1 200 OK", 127: "HTTP/1.1 431 Request Header Fields Too Large"} {
		conn := s.dial("http/1.1")
		_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n"+strings.Repeat("a:\r\n", lines)+"\r\n")
		require.NoError(t, err)
		status, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, strings.TrimSpace(status))
	}
}

func TestAHeaderOfHTTP2IsBounded(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, protocol)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.address, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Note", strings.Repeat("x", 21<<10))
	answer, err := s.transport(true).RoundTrip(request)
	if err == nil { // clients that know the bound do not send it
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)
	}
}

func TestAFurtherClientEvictsTheConnectionThatWaitedLongestOverTLS(t *testing.T) {
	t.Parallel()
	answered := "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, tc := range map[string]struct {
		protocol, sent string
	}{
		"for a request":         {"http/1.1", ""},
		"for another request":   {"http/1.1", answered},
		"for half a header":     {"http/1.1", "GET / HTTP/1.1\r\nHost"},
		"for a body":            {"http/1.1", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{"},
		"for a stream":          {"h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
		"for HTTP/2 to begin":   {"h2", ""},
		"for half a HTTP/2 one": {"h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				protocol(w, r)
			}, func(s *Server) { s.MaxConnections = 1 })
			slow := s.dial(tc.protocol)
			_, err := io.WriteString(slow, tc.sent)
			require.NoError(t, err)
			if tc.sent == answered {
				_, err = slow.Read(make([]byte, 512))
				require.NoError(t, err)
			}
			require.Eventually(t, func() bool { // a client that is being served is not evicted
				conn, err := (&tls.Dialer{Config: s.client}).DialContext(t.Context(), "tcp", s.address)
				if err != nil {
					return false
				}
				_ = conn.Close()
				return true
			}, time.Minute, 5*time.Millisecond)
			_, err = io.Copy(io.Discard, slow)
			if err != nil {
				require.NotErrorIs(t, err, context.DeadlineExceeded)
			}
		})
	}
}

func TestAClientOfHTTP2ThatIsBeingAnsweredIsNotEvicted(t *testing.T) {
	t.Parallel()
	pair := loopback.Make(t, time.Time{}, "shop.example.com")
	config, roots, now := pair.Server(t), loopback.Roots(t, pair), time.Now()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		listener := startServer(t, Server{
			MaxConnections: 1, TLS: func(net.Conn) *tls.Config { return config },
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-release
				protocol(w, r)
			}),
		})
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{
				RootCAs: roots, ServerName: "shop.example.com", MinVersion: tls.VersionTLS12, Time: func() time.Time { return now },
			},
			ForceAttemptHTTP2: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return listener.open(), nil },
		}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.example.com", http.NoBody)
		require.NoError(t, err)
		answer, err := transport.RoundTrip(request)
		require.NoError(t, err)
		for range 10 {
			time.Sleep(inTime)
			_, err = io.Copy(io.Discard, listener.open())
			require.NoError(t, err, "there is no place for it")
		}
		close(release)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, "https HTTP/2.0", string(text))
	})
}

func TestServeDrainsHTTP2(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	s := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		protocol(w, r)
	})
	answers := s.goText(s.transport(true))
	<-entered
	s.stop()
	close(release)
	require.Equal(t, answered{text: "https HTTP/2.0"}, <-answers)
	require.NoError(t, <-s.served)
}

func TestPendingHandshakeDoesNotDelayTheDrain(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, protocol)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "\x16\x03\x01")
	require.NoError(t, err)
	require.Equal(t, "https HTTP/1.1", s.text(s.transport(false)), "others are served meanwhile")
	s.stop()
	require.NoError(t, <-s.served)
	_, err = io.Copy(io.Discard, conn)
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
	require.NoError(t, conn.Close())
}

func TestHeaderHasAtMostTheAllowedLinesAndOneLength(t *testing.T) {
	t.Parallel()
	const first = "POST / HTTP/1.1\r\n"
	for name, tc := range map[string]struct {
		sent string
		want error
	}{
		"the maximum":                       {first + strings.Repeat("a:\r\n", maxHeaderLines-1) + "\r\n", nil},
		"one line too many":                 {first + strings.Repeat("a:\r\n", maxHeaderLines) + "\r\n", errManyHeaders},
		"one line too many, without an end": {first + strings.Repeat("a:\n", maxHeaderLines), errManyHeaders},
		"behind empty lines":                {"\r\n\n" + first + strings.Repeat("a:\n", maxHeaderLines), errManyHeaders},
		"behind a line of one space":        {first + "a: b\r\n \n" + strings.Repeat("a:\n", maxHeaderLines-2), errManyHeaders},
		"behind a line of one letter":       {first + "a\n" + strings.Repeat("a:\n", maxHeaderLines-1), errManyHeaders},
		"a body of many":                    {first + "\r\n" + strings.Repeat("\n", 1000), nil},
		"a length":                          {first + "Content-Length: 1\r\n\r\nTransfer-Encoding: chunked\r\n", nil},
		"a length and chunks":               {first + "a: b\r\ncontent-LENGTH:1\r\nTransfer-Encoding: chunked\r\n\r\n", errTwoLengths},
		"chunks and a length":               {first + "Transfer-encoding:chunked\nContent-Length:\n\n", errTwoLengths},
		"chunks and names like it":          {first + "Transfer-Encoding: chunked\r\nContent-Lengths: 1\r\nX-Content-Length: 1\r\n\r\n", nil},
		"a body behind bare ends":           {"POST / HTTP/1.1\n\n" + strings.Repeat("\n", 1000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range []int{1, 2, 3, 7, 4096, len(tc.sent)} {
				h := header{}
				h.begin()
				var got error
				for rest := tc.sent; got == nil && rest != ""; rest = rest[min(piece, len(rest)):] {
					got = h.read([]byte(rest[:min(piece, len(rest))]))
				}
				require.Equal(t, tc.want, got, "in pieces of %d", piece)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: h\r\n\r\nbody\n", 3)
	f.Fuzz(func(t *testing.T, sent string, piece int) {
		whole, parts := header{}, header{}
		whole.begin()
		parts.begin()
		want, got := whole.read([]byte(sent)), error(nil)
		for rest := sent; got == nil && rest != ""; {
			n := min(max(piece, 1), len(rest))
			got, rest = parts.read([]byte(rest[:n])), rest[n:]
		}
		require.Equal(t, want, got)
	})
}
