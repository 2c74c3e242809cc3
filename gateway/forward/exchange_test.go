package forward

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const wait = time.Minute

// scripted is a backend that answers each request with the text of its path, and remembers what it got.
type scripted struct {
	net.Listener
	answers map[string]string

	mu   sync.Mutex
	got  []string
	held sync.WaitGroup
}

// closes ends a script after which the backend closes the connection.
const closes = "<closes>"

func startScripted(t *testing.T, answers map[string]string) *scripted {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &scripted{Listener: listener, answers: answers}
	s.held.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.held.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.held.Wait()
	})
	return s
}

func (s *scripted) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	from := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.got = append(s.got, shown(r, body))
		s.mu.Unlock()
		answer, last := strings.CutSuffix(s.answers[r.URL.Path], closes)
		if r.Method == http.MethodHead {
			answer = headOf(answer)
		}
		if _, err := io.WriteString(conn, answer); err != nil || last {
			return
		}
	}
}

// headOf returns a script up to the body of its response.
func headOf(script string) string {
	head, rest, _ := strings.Cut(script, "\r\n\r\n")
	if rest == "" {
		return script
	}
	if head += "\r\n\r\n"; strings.HasPrefix(head, "HTTP/1.1 10") {
		return head + headOf(rest)
	}
	return head
}

// take returns what was received.
func (s *scripted) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}

// shown is a request but for the order of its headers.
func shown(r *http.Request, body []byte) string {
	text := fmt.Sprintf("%s %s %s\nhost: %s\nlength: %d\nencoding: %v\nbody: %s\n", r.Method, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.TransferEncoding, body)
	return text + lines(r.Header) + lines(r.Trailer)
}

func lines(header http.Header) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&text, "%s: %q\n", name, header[name])
	}
	return text.String()
}

// there sends requests to one address.
type there struct {
	*Exchange
	transport *Transport
	address   string
}

func (b *there) Send(r *http.Request) (*http.Response, error) {
	return b.transport.Send(b.Exchange, r, b.address)
}
func (*there) Answer(*http.Response) {}
func (*there) Refuse(w http.ResponseWriter, _ *http.Request, _ error) {
	w.WriteHeader(http.StatusBadGateway)
}

// startExchanges serves by exchanges with a backend.
func startExchanges(t *testing.T, address string) (front string, transport *Transport) {
	t.Helper()
	transport = NewTransport(new(net.Dialer).DialContext, false)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		own := r.WithContext(r.Context())
		own.Header = r.Header.Clone()
		answer, x := NewWriter(w), new(Exchange)
		x.Forward(answer, own, &there{x, transport, address})
		answer.AbortUnlessAnswered()
	}))
	server.Config.ErrorLog = Silent
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.Listener.Addr().String(), transport
}

// startReverseProxy serves by httputil.ReverseProxy what startExchanges does.
func startReverseProxy(t *testing.T, address string) string {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery, p.Out.Host = "http", address, p.In.URL.RawQuery, p.In.Host
			for _, name := range ForwardingHeaders {
				if values, ok := p.In.Header[name]; ok {
					p.Out.Header[name] = values
				}
			}
			host, _, _ := net.SplitHostPort(p.In.RemoteAddr)
			p.Out.Header["X-Forwarded-For"] = append(p.In.Header.Values("X-Forwarded-For"), host)
			p.Out.Header.Del("Expect")
			p.Out.Trailer = p.In.Trailer
		},
		Transport: transport, FlushInterval: -1, ErrorLog: Silent,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(NewWriter(w), r)
	}))
	server.Config.ErrorLog = Silent
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.Listener.Addr().String()
}

// ask sends a text as it is, and returns the responses but for the order of headers.
func ask(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(wait)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	method, _, _ := strings.Cut(text, " ")
	from, got := bufio.NewReader(conn), ""
	for {
		answer, err := http.ReadResponse(from, &http.Request{Method: method})
		if err != nil {
			return got + "broken"
		}
		answer.Header.Del("Date")
		got += fmt.Sprintf("%s\n%s", answer.Status, lines(answer.Header))
		if answer.StatusCode < http.StatusOK && answer.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		if answer.StatusCode == http.StatusSwitchingProtocols {
			greeting, _ := from.ReadString('\n')
			return got + greeting
		}
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, answer.Body.Close())
		return got + fmt.Sprintf("length: %d\nencoding: %v\nclose: %v\nbody: %s\nwhole: %v\n%s",
			answer.ContentLength, answer.TransferEncoding, answer.Close, body, err == nil, lines(answer.Trailer))
	}
}

// heads of requests, each followed by the path's script.
var heads = map[string]string{
	"a GET":                             "GET PATH HTTP/1.1\r\nHost: a.example\r\n\r\n",
	"a query that is no list":           "GET PATH?a;b=%zz&&c HTTP/1.1\r\nHost: a.example\r\n\r\n",
	"an absolute target":                "GET http://b.examplePATH HTTP/1.1\r\nHost: a.example\r\n\r\n",
	"many headers":                      "GET PATH HTTP/1.1\r\nHost: a.example:80\r\nA: 1\r\nA: 2\r\nEmpty:\r\nUser-Agent: x\r\nAccept-Encoding: gzip\r\n\r\n",
	"forwarding headers":                "GET PATH HTTP/1.1\r\nHost: a.example\r\nForwarded: x\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nX-Forwarded-Proto: https\r\n\r\n",
	"headers of the connection":         "GET PATH HTTP/1.1\r\nHost: a.example\r\nConnection: X-Hop, x-forwarded-for, close\r\nX-Hop: 1\r\nX-Forwarded-For: 1.1.1.1\r\nProxy-Authorization: x\r\nKeep-Alive: 1\r\nTe: gzip, trailers\r\n\r\n",
	"a HEAD":                            "HEAD PATH HTTP/1.1\r\nHost: a.example\r\n\r\n",
	"OPTIONS":                           "OPTIONS PATH HTTP/1.1\r\nHost: a.example\r\n\r\n",
	"a method of its own":               "PURGE PATH HTTP/1.1\r\nHost: a.example\r\n\r\n",
	"DELETE of length 0":                "DELETE PATH HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n",
	"a POST without a body":             "POST PATH HTTP/1.1\r\nHost: a.example\r\n\r\n",
	"a POST":                            "POST PATH HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
	"a POST that is larger than a read": "POST PATH HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("x", 9000),
	"a POST in chunks":                  "POST PATH HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"a POST with a trailer":             "POST PATH HTTP/1.1\r\nHost: a.example\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
	"a GET with a body":                 "GET PATH HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello",
	"a POST that expects":               "POST PATH HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.0":                          "GET PATH HTTP/1.0\r\nHost: a.example\r\n\r\n",
	"HTTP/1.0 without a host":           "GET PATH HTTP/1.0\r\n\r\n",
	"an upgrade":                        "GET PATH HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nForwarded: x\r\n\r\n",
	"an upgrade of nothing":             "GET PATH HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\n",
}

var scripts = map[string]string{
	"/length":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 5\r\nA: 1\r\nA: 2\r\n\r\nhello",
	"/empty":      "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 0\r\n\r\n",
	"/created":    "HTTP/1.1 201 Created\r\nContent-Type: text/x\r\nLocation: /x\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 2\r\n\r\nok",
	"/nothing":    "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
	"/unchanged":  "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n",
	"/chunks":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
	"/trailer":    "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
	"/unsaid":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
	"/last":       "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 5\r\n\r\nhello" + closes,
	"/until":      "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n\r\nhello" + closes,
	"/old":        "HTTP/1.0 200 OK\r\nContent-Type: text/x\r\n\r\nhello" + closes,
	"/interim":    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 5\r\n\r\nhello",
	"/broken":     "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 9\r\n\r\nhello" + closes,
	"/none":       closes,
	"/half":       "HTTP/1.1 200 O" + closes,
	"/malformed":  "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nno header\r\n\r\n" + closes,
	"/ambiguous":  "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!" + closes,
	"/switched":   "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nwelcome\n" + closes,
	"/unexpected": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nwelcome\n" + closes,
	"/error":      "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
}

// The reverse proxy is the reference, as it was what forwarded before.
func TestAnExchangeForwardsAsAReverseProxyDoes(t *testing.T) {
	t.Parallel()
	for name, head := range heads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend := startScripted(t, scripts)
			ours, _ := startExchanges(t, backend.Addr().String())
			theirs := startReverseProxy(t, backend.Addr().String())
			for path := range scripts {
				text := strings.ReplaceAll(head, "PATH", path)
				wanted := ask(t, theirs, text)
				sent := backend.take()
				require.Equal(t, wanted, ask(t, ours, text), path)
				require.Equal(t, sent, backend.take(), path)
			}
		})
	}
}

// net/http would guess a type when it has the beginning of the body.
func TestAResponseWithoutATypeGetsNone(t *testing.T) {
	t.Parallel()
	backend := startScripted(t, map[string]string{"/": "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>"})
	front, _ := startExchanges(t, backend.Addr().String())
	require.NotContains(t, ask(t, front, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"), "Content-Type")
}
