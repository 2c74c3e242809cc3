package entrance

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// fixture is an Entrance with both listeners, whose clients trust the initial content of its folder.
type fixture struct {
	t        *testing.T
	options  Options
	entrance *Entrance
	client   *tls.Config
	stop     context.CancelFunc
	ended    chan error
}

func store(t *testing.T, dir, folder string, pair loopback.Pair) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, folder, "tls.crt"), pair.Certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, folder, "tls.key"), pair.Key, 0o600))
}

func start(t *testing.T, handler http.HandlerFunc, change ...func(*Options)) *fixture {
	t.Helper()
	pair := loopback.Make(t, time.Time{}, "shop.example.com")
	options := DefaultOptions()
	options.HTTPAddress, options.TLSAddress, options.TLSDir = loopback.Address(t), loopback.Address(t), t.TempDir()
	options.Reload = time.Millisecond
	store(t, options.TLSDir, "first", pair)
	for _, c := range change {
		c(&options)
	}
	require.NoError(t, flags.Validate(&options))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	f := &fixture{
		t: t, options: options, stop: stop, ended: make(chan error, 1),
		entrance: New(Deps{Registry: prometheus.NewPedanticRegistry(), Log: logr.Discard()}, options),
		client:   &tls.Config{RootCAs: loopback.Roots(t, pair), ServerName: "shop.example.com", MinVersion: tls.VersionTLS12},
	}
	go func() { f.ended <- f.entrance.Run(ctx, handler) }()
	t.Cleanup(stop)
	require.Eventually(t, func() bool { return f.entrance.Ready() == nil }, time.Minute, time.Millisecond)
	return f
}

// dial speaks HTTP in the clear.
func (f *fixture) dial() net.Conn {
	f.t.Helper()
	conn, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", f.options.HTTPAddress)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dialTLS speaks one of the protocols.
func (f *fixture) dialTLS(protocols ...string) net.Conn {
	f.t.Helper()
	config := f.client.Clone()
	config.NextProtos = protocols
	conn, err := (&tls.Dialer{Config: config}).DialContext(f.t.Context(), "tcp", f.options.TLSAddress)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (f *fixture) transport(http2 bool) *http.Transport {
	transport := &http.Transport{TLSClientConfig: f.client.Clone(), ForceAttemptHTTP2: http2}
	f.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// text requests a path and returns the body of the response.
func (f *fixture) text(request *http.Request, http2 bool) string {
	f.t.Helper()
	answer, err := f.transport(http2).RoundTrip(request)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(f.t, err)
	return string(text)
}

func (f *fixture) request(scheme, path string) *http.Request {
	f.t.Helper()
	address := f.options.HTTPAddress
	if scheme == "https" {
		address = f.options.TLSAddress
	}
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, scheme+"://"+address+path, http.NoBody)
	require.NoError(f.t, err)
	request.Host = "shop.example.com"
	return request
}

func protocol(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto+" "+r.Host) }

func TestTheEntranceSpeaksHTTPAndHTTPSWithHTTP2(t *testing.T) {
	t.Parallel()
	f := start(t, protocol)
	require.Equal(t, "HTTP/1.1 shop.example.com", f.text(f.request("http", "/"), false))
	require.Equal(t, "HTTP/1.1 shop.example.com", f.text(f.request("https", "/"), false))
	require.Equal(t, "HTTP/2.0 shop.example.com", f.text(f.request("https", "/"), true))
	f.stop()
	require.NoError(t, <-f.ended)
	require.Error(t, f.entrance.Ready())
}

func TestTheEntranceDrains(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scheme string
		http2  bool
	}{"HTTP": {"http", false}, "HTTPS": {"https", false}, "HTTP/2": {"https", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered, release := make(chan struct{}), make(chan struct{})
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				<-release
				protocol(w, r)
			})
			texts := make(chan string, 1)
			request := f.request(tc.scheme, "/")
			go func() { texts <- f.text(request, tc.http2) }()
			<-entered
			f.stop()
			require.Eventually(t, func() bool {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.options.HTTPAddress)
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			}, time.Minute, time.Millisecond, "no further connection is taken")
			close(release)
			require.Contains(t, <-texts, "shop.example.com")
			require.NoError(t, <-f.ended)
		})
	}
}

func TestAHandlerEndsConnectionsOfHTTP2AsThoseOfHTTP1(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close")
				protocol(w, r)
			})
			transport := f.transport(http2)
			for range 3 {
				reused := true
				request := f.request("https", "/")
				request = request.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
				}))
				answer, err := transport.RoundTrip(request)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, answer.Body)
				require.NoError(t, err)
				require.NoError(t, answer.Body.Close())
				require.False(t, reused)
			}
		})
	}
}

func TestAnAddressThatIsTakenIsNamed(t *testing.T) {
	t.Parallel()
	f := start(t, protocol)
	err := New(Deps{Registry: prometheus.NewRegistry(), Log: logr.Discard()}, f.options).Run(t.Context(), http.NotFoundHandler())
	require.ErrorContains(t, err, "listen on "+f.options.HTTPAddress)
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	o := Options{TLSDir: "/tls", MaxConnections: 1}
	require.ErrorContains(t, flags.Validate(&o), "--http-address and --tls-address are empty")
	o = Options{TLSAddress: ":1", MaxConnections: 1}
	require.ErrorContains(t, flags.Validate(&o), "--tls-dir must not be empty")
	proxies := &networks{&o.TrustedProxies}
	require.ErrorContains(t, proxies.Set("10.0.0.1"), "is not a network such as")
	require.NoError(t, proxies.Set("10.1.2.3/8, fd00::/8"))
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, o.TrustedProxies)
	require.Equal(t, "10.0.0.0/8,fd00::/8", proxies.String())
}

func TestAListenerThatIsThereIsTakenInPlaceOfTheAddress(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", loopback.Address(t))
	require.NoError(t, err)
	options := DefaultOptions()
	options.HTTPAddress = "192.0.2.1:80" // an address that this machine does not have
	entrance := New(Deps{HTTP: listener, Registry: prometheus.NewPedanticRegistry(), Log: logr.Discard()}, options)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- entrance.Run(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), http.NoBody)
	require.NoError(t, err)
	request.Close = true
	answer, err := loopback.Default.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusTeapot, answer.StatusCode)
	stop()
	require.NoError(t, <-ended)
}

// headersOf returns the headers that a handler gets, one on a line.
func headersOf(w http.ResponseWriter, r *http.Request) {
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		_, _ = fmt.Fprintf(w, "%s: %s\n", name, strings.Join(r.Header[name], " | "))
	}
}

// said are all headers with which a client could claim where a request came from, and Rouse's own.
const said = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.example.com\r\n" +
	"X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /evil\r\nForwarded: for=192.0.2.1\r\nX-Real-Ip: 192.0.2.1\r\n" +
	"X_Forwarded_For: 192.0.2.2\r\nX-Forwarded_Host: worse.example.com\r\n" +
	"Rouse-Via: gateway\r\nrouse-via: eventbridge\r\nROUSE_VIA: gateway\r\nRouse-Anything: x\r\nRoused: stays\r\nX-Forward: stays\r\n"

func (f *fixture) exchange(sent string) string {
	f.t.Helper()
	conn := f.dial()
	_, err := io.WriteString(conn, sent)
	require.NoError(f.t, err)
	text, err := io.ReadAll(conn)
	require.NoError(f.t, err)
	_, body, _ := strings.Cut(string(text), "\r\n\r\n")
	return body
}

func TestForwardingHeadersOfUntrustedClientsAreRemoved(t *testing.T) {
	t.Parallel()
	f := start(t, headersOf)
	got := f.exchange("GET / HTTP/1.0\r\nHost: h\r\n" + said + "\r\n")
	require.Equal(t, "Roused: stays\nX-Forward: stays\nX-Forwarded-Proto: http\n", got)
}

func TestATrustedProxyIsBelievedButForRousesOwnHeaders(t *testing.T) {
	t.Parallel()
	f := start(t, headersOf, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	got := f.exchange("GET / HTTP/1.0\r\nHost: h\r\n" + said + "\r\n")
	require.Equal(t, "Forwarded: for=192.0.2.1\nRoused: stays\nX-Forward: stays\nX-Forwarded-For: 192.0.2.1\n"+
		"X-Forwarded-Host: evil.example.com\nX-Forwarded-Port: 1\nX-Forwarded-Prefix: /evil\nX-Forwarded-Proto: https\nX-Real-Ip: 192.0.2.1\n", got)
}

func TestTheSchemeIsThatOfTheListenerOrOfATrustedProxy(t *testing.T) {
	t.Parallel()
	trust := func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	for _, tc := range []struct {
		scheme, says, want string
		change             []func(*Options)
	}{
		{"http", "", "http", nil},
		{"https", "", "https", nil},
		{"http", "https", "http", nil},
		{"https", "http", "https", nil},
		{"http", "https", "https", []func(*Options){trust}},
		{"http", "gopher", "http", []func(*Options){trust}},
	} {
		f := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get(forwardedProto)) }, tc.change...)
		for _, http2 := range []bool{false, true} {
			request := f.request(tc.scheme, "/")
			if tc.says != "" {
				request.Header.Set(forwardedProto, tc.says)
			}
			require.Equal(t, tc.want, f.text(request, http2), "%+v", tc)
		}
	}
}

func TestNothingButWebSocketsIsUpgradedTo(t *testing.T) {
	t.Parallel()
	f := start(t, headersOf)
	const settings = "HTTP2-Settings: AAMAAABkAAQAAP__\r\n"
	for name, tc := range map[string]struct{ sent, want string }{
		"h2c":               {"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" + settings, ""},
		"h2c and WebSocket": {"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n" + settings, ""},
		"twice":             {"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", ""},
		"WebSocket":         {"Connection: Upgrade\r\nUpgrade: WebSocket\r\n", "WebSocket"},
	} {
		got := f.exchange("GET / HTTP/1.1\r\nHost: h\r\n" + strings.Replace(tc.sent, "Connection: ", "Connection: close, ", 1) + "\r\n")
		require.NotContains(t, got, "Http2-Settings", name)
		if tc.want == "" {
			require.NotContains(t, got, "\nUpgrade:", name)
		} else {
			require.Contains(t, got, "Upgrade: "+tc.want+"\n", name)
		}
	}
}
