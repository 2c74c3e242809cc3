package gateway

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// outside is a gateway that serves APIRules, and what its clients trust.
type outside struct {
	*fixture
	exposures chan []apirule.Exposure
	client    *tls.Config
}

func startOutside(t *testing.T, change ...func(*Deps, *Options)) *outside {
	t.Helper()
	pair := loopback.Make(t, time.Time{}, "*.example.com")
	dir := filepath.Join(t.TempDir(), "tls")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "shop"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop", "tls.crt"), pair.Certificate, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop", "tls.key"), pair.Key, 0o600))
	o := &outside{
		exposures: make(chan []apirule.Exposure),
		client:    &tls.Config{RootCAs: loopback.Roots(t, pair), MinVersion: tls.VersionTLS12},
	}
	o.fixture = startWith(t, func(d *Deps) {
		d.Exposures = func(ctx context.Context, apply func([]apirule.Exposure)) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case current := <-o.exposures:
					apply(current)
				}
			}
		}
		for _, c := range change {
			c(d, &Options{})
		}
	}, func(o *Options) {
		for _, c := range change {
			c(&Deps{}, o)
		}
		o.Entrance.HTTPAddress, o.Entrance.TLSAddress, o.Entrance.TLSDir = loopback.Address(t), loopback.Address(t), dir
	})
	o.listings <- nil
	return o
}

// get requests a host over https with HTTP/2, without resolving its name. It returns the status and the text.
func (o *outside) get(host, path string) (int, string) {
	o.t.Helper()
	transport := &http.Transport{
		TLSClientConfig: o.client.Clone(), ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", o.options.Entrance.TLSAddress)
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, "https://"+host+path, http.NoBody)
	require.NoError(o.t, err)
	answer, err := transport.RoundTrip(request)
	require.NoError(o.t, err)
	defer func() { require.NoError(o.t, answer.Body.Close()) }()
	require.Equal(o.t, 2, answer.ProtoMajor)
	text, err := io.ReadAll(answer.Body)
	require.NoError(o.t, err)
	return answer.StatusCode, string(text)
}

func exposed(host string, backend apirule.Backend, change ...func(*v2.Rule)) apirule.Exposure {
	yes := true
	rule := &v2.Rule{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: &yes}
	for _, c := range change {
		c(rule)
	}
	name, _, _ := strings.Cut(host, ".")
	return apirule.Exposure{
		APIRule: types.NamespacedName{Namespace: "shop", Name: name}, UID: types.UID(host), Generation: 1, Host: host,
		Rules: []apirule.Rule{{Spec: rule, Backend: backend, Timeout: time.Minute}},
	}
}

// behind sets the server as the only pod of a Service.
func (o *outside) behind(server *httptest.Server) apirule.Backend {
	o.t.Helper()
	address, err := netip.ParseAddrPort(server.Listener.Addr().String())
	require.NoError(o.t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(o.t.Context()))
	var giving sync.WaitGroup
	giving.Go(func() {
		for ctx.Err() == nil {
			select {
			case o.endpoints <- []routing.Endpoint{{Address: address.String(), Ready: true}}: // for each connection
			case <-ctx.Done():
			}
		}
	})
	o.t.Cleanup(func() {
		stop()
		giving.Wait()
	})
	return apirule.Backend{
		Service: types.NamespacedName{Namespace: "shop", Name: "web"}, Address: "10.0.0.1", Port: 80,
	}
}

func (o *outside) report() (int, apirule.Report) {
	o.t.Helper()
	answer, err := o.fixture.get(o.options.LoadAddress, apirule.ReportPath)
	require.NoError(o.t, err)
	defer func() { require.NoError(o.t, answer.Body.Close()) }()
	var report apirule.Report
	if answer.StatusCode == http.StatusOK {
		require.NoError(o.t, json.NewDecoder(answer.Body).Decode(&report))
	}
	return answer.StatusCode, report
}

func TestAServiceIsReachedFromOutsideByTheNameOfItsCertificate(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Join([]string{r.Host, r.URL.Path, r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-For")}, " "))
	}))
	defer service.Close()
	o := startOutside(t)
	o.exposures <- []apirule.Exposure{exposed("web.example.com", o.behind(service))}
	o.awaitStatus(o.options.MetricsAddress, "/readyz", http.StatusOK)

	_, text := o.get("web.example.com", "/a")
	require.Equal(t, "web.example.com /a https 127.0.0.1", text)
	status, text := o.get("other.example.com", "/a")
	require.Equal(t, http.StatusNotFound, status)
	require.Empty(t, text)

	o.exposures <- nil
	require.Eventually(t, func() bool {
		status, _ := o.get("web.example.com", "/a")
		return status == http.StatusNotFound
	}, time.Minute, time.Millisecond)
	o.stop()
	require.NoError(t, <-o.ended)
}

func TestARequestFromOutsideWakesAFunctionAndCountsAsItsLoad(t *testing.T) {
	t.Parallel()
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.Header.Get(activation.HeaderVia))
	}))
	defer pod.Close()
	o := startOutside(t)
	price := apirule.Backend{Service: types.NamespacedName{Namespace: "shop", Name: "price"}, Address: "10.0.0.1", Port: 80, Wakes: true}
	o.exposures <- []apirule.Exposure{exposed("price.example.com", price)}
	o.awaitStatus(o.options.MetricsAddress, "/readyz", http.StatusOK)
	texts := make(chan string, 1)
	go func() {
		_, text := o.get("price.example.com", "/")
		texts <- text
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(o.metrics(), "rouse_gateway_requests_waiting 1")
	}, time.Minute, 5*time.Millisecond)
	o.stop() // what waits is answered though the gateway stops
	o.awaitStatus(o.options.MetricsAddress, "/readyz", http.StatusServiceUnavailable)
	o.endpoints <- []routing.Endpoint{{Address: pod.Listener.Addr().String(), Ready: true, Function: true}}
	require.Equal(t, "price.example.com "+activation.ViaGateway, <-texts)
	require.NoError(t, <-o.ended)
}

func TestAGatewayIsReadyOnceAPIRulesAreLoadedAndReportsThem(t *testing.T) {
	t.Parallel()
	o := startOutside(t)
	status, _ := o.report()
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Eventually(t, func() bool { // after the Functions
		answer, err := o.fixture.get(o.options.MetricsAddress, "/readyz")
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return strings.Contains(string(text), "the APIRules are not loaded yet")
	}, time.Minute, time.Millisecond)

	web := exposed("web.example.com", apirule.Backend{Address: "10.0.0.1", Port: 80})
	refused := exposed("jwt.example.com", apirule.Backend{Address: "10.0.0.1", Port: 80}, func(r *v2.Rule) {
		r.NoAuth = nil
		r.JWT = &v2.JWT{Authentications: []*v2.JWTAuthentication{{Issuer: "https://issuer", JWKSURI: "http://169.254.169.254/keys"}}}
	})
	o.exposures <- []apirule.Exposure{web, refused}
	o.awaitStatus(o.options.MetricsAddress, "/readyz", http.StatusOK)
	fingerprint, err := web.Fingerprint()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, report := o.report()
		return len(report.APIRules["shop/jwt"].Problems) == 1
	}, time.Minute, 5*time.Millisecond)
	_, report := o.report()
	require.Equal(t, apirule.Loaded{Fingerprint: fingerprint}, report.APIRules["shop/web"])
	problem := report.APIRules["shop/jwt"].Problems[0]
	require.Zero(t, problem.Rule)
	require.Equal(t, ".spec.rules[0].jwt.authentications[0].jwksUri", problem.Attribute)
	require.Contains(t, problem.Message, "keys cannot be fetched")

	metrics := o.metrics()
	require.Contains(t, metrics, `rouse_gateway_jwks_uris{state="missing"} 1`)
	require.Contains(t, metrics, "rouse_gateway_jwks_plain_uris 1")
}

func TestRequestsFromOutsideAreRefusedWithoutAPIRules(t *testing.T) {
	t.Parallel()
	address := loopback.Address(t)
	f := start(t, func(o *Options) { o.Entrance.HTTPAddress = address })
	f.listings <- nil
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.Error(t, err)
	answer, err := f.get(f.options.LoadAddress, apirule.ReportPath)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}
