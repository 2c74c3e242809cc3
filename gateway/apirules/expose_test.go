package apirules

import (
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
	"github.com/rouse-run/rouse/gateway/jwt"
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
	exposed  *Exposed
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
	f.function.address = apirule.Backend{Service: price, Port: 80, Address: "192.0.2.1", Function: true}
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
