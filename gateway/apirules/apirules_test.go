package apirules

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shopHost = "shop.example.com"

var (
	price = types.NamespacedName{Namespace: "shop", Name: "price"}
	yes   = true
)

// fixture is a gateway with one Function, price, and one other Service.
type fixture struct {
	t        *testing.T
	exposed  *Server
	server   *httptest.Server
	function *backend
	service  *backend
	registry *prometheus.Registry
}

// backend remembers what it got.
type backend struct {
	mu      sync.Mutex
	handler http.HandlerFunc
	got     []*http.Request
	address apirule.Backend
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.got = append(b.got, r.Clone(r.Context()))
	handler := b.handler
	b.mu.Unlock()
	handler(w, r)
}

func (b *backend) answers(handler http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handler = handler
}

// last is the last request.
func (b *backend) last(t *testing.T) *http.Request {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(t, b.got, "the backend got no request")
	return b.got[len(b.got)-1]
}

// take is the one request that there was since the last was taken.
func (b *backend) take(t *testing.T) *http.Request {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Len(t, b.got, 1)
	one := b.got[0]
	b.got = nil
	return one
}

func (b *backend) requests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.got)
}

func start(t *testing.T, change ...func(*Deps, *Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, registry: prometheus.NewRegistry()}
	f.function, f.service = &backend{handler: says("price")}, &backend{handler: says("catalog")}
	f.function.address = apirule.Backend{Service: price, Port: 80, Address: "192.0.2.1", Wakes: true}
	behind := httptest.NewServer(f.service)
	t.Cleanup(behind.Close)
	f.service.address = addressOf(t, behind)

	deps, options := Deps{
		Activate: func(w http.ResponseWriter, r *http.Request, function types.NamespacedName, _ time.Duration) {
			require.Equal(t, price, function)
			f.function.ServeHTTP(w, r)
		},
		Keys:      jwt.NewKeys(jwt.KeysOptions{Guard: dialguard.Guard{AllowLoopback: true}, Now: time.Now}),
		Endpoints: onLoopback{},
		Guard:     dialguard.Guard{AllowLoopback: true},
		Now:       time.Now,
		Registry:  f.registry,
		Log:       logr.Discard(),
	}, DefaultOptions()
	for _, c := range change {
		c(&deps, &options)
	}
	f.exposed = New(deps, options)
	f.server = httptest.NewServer(f.exposed)
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
		f.exposed.Close()
	})
	return f
}

// onLoopback is where all Services have a pod, which listens at their port.
type onLoopback struct{}

// Watch implements Endpoints.
func (onLoopback) Watch(ctx context.Context, _ types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: net.JoinHostPort(loopback.Host, strconv.Itoa(int(port))), Ready: true}})
	<-ctx.Done()
	return nil
}

func addressOf(t *testing.T, server *httptest.Server) apirule.Backend {
	t.Helper()
	at, err := netip.ParseAddrPort(server.Listener.Addr().String())
	require.NoError(t, err)
	return apirule.Backend{
		Service: types.NamespacedName{Namespace: "shop", Name: "catalog"}, Port: int32(at.Port()), Address: at.Addr().String(),
	}
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// serve has the gateway serve a host with rules of one APIRule.
func (f *fixture) serve(host string, rules ...apirule.Rule) {
	f.t.Helper()
	f.exposed.Set([]apirule.Exposure{exposureOf(host, rules...)})
}

func exposureOf(host string, rules ...apirule.Rule) apirule.Exposure {
	return apirule.Exposure{APIRule: types.NamespacedName{Namespace: "shop", Name: host}, Host: host, Rules: rules}
}

// open lets everyone in.
func open(to apirule.Backend, path string, methods ...v2.Method) apirule.Rule {
	return apirule.Rule{Spec: &v2.Rule{Path: path, Methods: methods, NoAuth: &yes}, Backend: to, Timeout: 10 * time.Second}
}

type answer struct {
	*http.Response

	text string
}

// do sends a request to a host.
func (f *fixture) do(method, host, path string, headers ...string) answer {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL, nil)
	require.NoError(f.t, err)
	r.URL.Opaque, r.Host = path, host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return f.send(r)
}

func (f *fixture) get(path string, headers ...string) answer {
	f.t.Helper()
	return f.do(http.MethodGet, shopHost, path, headers...)
}

func (f *fixture) send(r *http.Request) answer {
	f.t.Helper()
	response, err := f.server.Client().Transport.RoundTrip(r)
	require.NoError(f.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	return answer{response, string(text)}
}

func TestARuleLeadsToItsFunctionOrItsService(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.function.address, "/price", "GET"), open(f.service.address, "/catalog/{**}", "GET", "POST"))

	got := f.get("/price?sku=1")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Equal(t, "price", got.text)
	require.Equal(t, "sku=1", f.function.last(t).URL.RawQuery)
	require.Equal(t, "catalog", f.get("/catalog/a").text)

	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/catalog/new", strings.NewReader("book"))
	require.NoError(t, err)
	r.Host = shopHost
	f.service.answers(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	require.Equal(t, "book", f.send(r).text)
}

// pod is the only pod of a Function, or nil.
type pod struct{ endpoints []routing.Endpoint }

// Watch implements activate.Endpoints.
func (p pod) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	apply(p.endpoints)
	<-ctx.Done()
	return nil
}

// Condition implements activate.Functions.
func (p pod) Condition(types.NamespacedName) activator.Condition { return activator.Condition{} }

// withActivators returns a gateway whose Function has a pod that serves with handle, or is asleep if handle is nil.
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

func TestReservedPathsFromOutsideNeitherWakeAFunctionNorExposeIt(t *testing.T) {
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

// raw sends a request as it is written here, which http.Request would not.
func (f *fixture) raw(text string) answer {
	f.t.Helper()
	conn, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", f.server.Listener.Addr().String())
	require.NoError(f.t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, text)
	require.NoError(f.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(f.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	return answer{response, string(body)}
}

func (f *fixture) rawGet(target string) answer {
	f.t.Helper()
	return f.raw("GET " + target + " HTTP/1.1\r\nHost: " + shopHost + "\r\nConnection: close\r\n\r\n")
}

func TestPathsMatchTheirPatterns(t *testing.T) {
	t.Parallel()
	for pattern, paths := range map[string]struct{ fit, not []string }{
		"/anything/one":         {[]string{"/anything/one", "/anything/one?x=/y"}, []string{"/anything/one/", "/anything", "/anything/two"}},
		"/example/{*}":          {[]string{"/example/a", "/example/a%20b", "/example/a+b", "/example/r*m", "/example/a%2Fb"}, []string{"/example/", "/example/a/", "/example"}},
		"/example/{*}/one":      {[]string{"/example/a/one"}, []string{"/example/one", "/example//one"}},
		"/example/{**}":         {[]string{"/example/", "/example/a", "/example/a/b/", "/example//a"}, []string{"/example", "//example/a"}},
		"/example/{**}/one":     {[]string{"/example/a/one", "/example/a/b/one"}, []string{"/example/one"}},
		"/{*}/example/{*}/{**}": {[]string{"/a/example/b/", "/a/example/b/c"}, []string{"/a/example/b"}},
		"/*":                    {[]string{"/", "/a", "//", "/a/../b", "/?"}, []string{"*"}},
		"/a%2fb%61":             {[]string{"/a%2Fba", "/a%2fb%61"}, []string{"/a/ba"}},
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.serve(shopHost, open(f.service.address, pattern, "GET"))
			for _, path := range paths.fit {
				require.Equal(t, "catalog", f.rawGet(path).text, path)
			}
			for _, path := range paths.not {
				got := f.rawGet(path)
				require.Equal(t, http.StatusNotFound, got.StatusCode, path)
				require.Empty(t, got.text)
			}
		})
	}
}

func TestAPathIsForwardedInTheFormInWhichItIsCompared(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	for target, forwarded := range map[string]string{
		"/a/b?x=%zz&y;z":             "/a/b?x=%zz&y;z",
		"/a/./b/../c":                "/a/c",
		"/a/b/..":                    "/a/",
		"/a/.":                       "/a/",
		"/%2e%2e/%2E./admin":         "/admin",
		"/../../x":                   "/x",
		"/a//b/":                     "/a//b/",
		"//a/..//b":                  "///b",
		"/a%2fb/%61%7E%25%2e%2e":     "/a%2Fb/a~%25..",
		"/a%2F..%2Fb":                "/a%2F..%2Fb",
		"/a;v=1/..;/b":               "/a;v=1/..;/b",
		"/caf\u00e9\\{x}|\"^":        "/caf%C3%A9%5C%7Bx%7D%7C%22%5E",
		"/...":                       "/...",
		"http://shop.example.com":    "/",
		"http://shop.example.com/a?": "/a?",
	} {
		require.Equal(t, "catalog", f.rawGet(target).text, target)
		require.Equal(t, forwarded, f.service.last(t).RequestURI, target)
	}
}

func TestAPathWithNULReachesNoBackend(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	for _, target := range []string{"/%00", "/a%00b", "/a/%00/../b%00"} {
		require.Equal(t, http.StatusBadRequest, f.rawGet(target).StatusCode, target)
	}
	require.Zero(t, f.service.requests())
}

func TestTheFirstRuleWithPathAndMethodAnswers(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost,
		open(f.function.address, "/anything/{*}/one", "POST"), open(f.service.address, "/anything/{**}", "GET", "POST"))
	for _, tc := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"POST", "/anything/x/one", 200, "price"},
		{"POST", "/anything/x/two", 200, "catalog"},
		{"GET", "/anything/x/two", 200, "catalog"},
		{"GET", "/anything/x/one", 403, "RBAC: access denied"}, // what an earlier rule has closed stays closed
		{"PUT", "/anything/x", 404, ""},
		{"GET", "/anything", 404, ""},
	} {
		got := f.do(tc.method, shopHost, tc.path)
		require.Equal(t, tc.status, got.StatusCode, tc)
		require.Equal(t, tc.text, got.text, tc)
	}
}

func TestTheMostSpecificHostAnswersAlone(t *testing.T) {
	t.Parallel()
	f := start(t)
	named := func(host string, to apirule.Backend, path string) apirule.Exposure {
		return exposureOf(host, open(to, path, "GET"))
	}
	f.exposed.Set([]apirule.Exposure{
		named("*.example.com", f.service.address, "/*"),
		named("a.example.com", f.function.address, "/only"),
		named("*.b.example.com", f.function.address, "/*"),
	})
	for host, want := range map[string]struct {
		path, text string
	}{
		"x.example.com":      {"/", "catalog"},
		"x.y.example.com":    {"/", "catalog"},
		"X.Example.COM":      {"/", "catalog"},
		"x.example.com:8080": {"/", "catalog"},
		"x.b.example.com":    {"/", "price"},
		"a.example.com":      {"/only", "price"},
		"b.example.com":      {"/", "catalog"},
	} {
		require.Equal(t, want.text, f.do("GET", host, want.path).text, host)
	}
	require.Equal(t, http.StatusNotFound, f.do("GET", "a.example.com", "/").StatusCode, "the wildcard does not help out")
	for _, unknown := range []string{"example.com", ".example.com", "other.com", "[::1]", "[::1]:80", "com", "x.example.com."} {
		got := f.do("GET", unknown, "/")
		require.Equal(t, http.StatusNotFound, got.StatusCode, unknown)
		require.Empty(t, got.text)
	}
}

func TestTargetsThatAreNoPathAreNotFound(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.server.Config.DisableGeneralOptionsHandler = true
	f.serve(shopHost, open(f.service.address, "/*", "GET", "OPTIONS", "CONNECT"))
	for _, head := range []string{"OPTIONS *", "CONNECT shop.example.com:443", "CONNECT /x"} {
		got := f.raw(head + " HTTP/1.1\r\nHost: shop.example.com\r\nConnection: close\r\n\r\n")
		require.Equal(t, http.StatusNotFound, got.StatusCode, head)
	}
	require.Zero(t, f.service.requests())
}

func TestTheHostOfAnAbsoluteTargetCounts(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	require.Equal(t, http.StatusNotFound, f.rawGet("http://other.example.com/").StatusCode)
	require.Equal(t, "catalog", f.raw("GET http://shop.example.com/a HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n").text)
	require.Equal(t, shopHost, f.service.last(t).Host, "backends see the host that was judged")
}

func TestAClosedRuleIsNotReadyAndOthersAnswer(t *testing.T) {
	t.Parallel()
	f := start(t)
	missing := open(apirule.Backend{}, "/missing", "GET")
	missing.Closed = true
	f.serve(shopHost, missing, open(f.service.address, "/*", "GET"))
	require.Equal(t, http.StatusServiceUnavailable, f.get("/missing").StatusCode)
	require.Equal(t, "catalog", f.get("/").text)
}

func TestWhatDoesNotHoldIsNotServedButLoaded(t *testing.T) {
	t.Parallel()
	f := start(t)
	broken := apirule.Exposure{APIRule: types.NamespacedName{Namespace: "shop", Name: "broken"}}
	f.exposed.Set([]apirule.Exposure{broken, exposureOf(shopHost, open(f.service.address, "/*", "GET"))})
	fingerprint, err := broken.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, Loaded{Fingerprint: fingerprint}, f.exposed.Loaded()[broken.APIRule])
	require.Len(t, f.exposed.Loaded(), 2)
	require.Equal(t, "catalog", f.get("/").text)

	f.exposed.Set(nil)
	require.Empty(t, f.exposed.Loaded())
	require.Equal(t, http.StatusNotFound, f.get("/").StatusCode)
}
