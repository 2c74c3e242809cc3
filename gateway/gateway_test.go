package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// listings are given one after the other.
type listings chan []activation.Listing

// Watch implements Listings.
func (l listings) Watch(ctx context.Context, apply func([]activation.Listing)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case current := <-l:
			apply(current)
		}
	}
}

// endpoints are the same for all Functions; none before they are set.
type endpoints chan []routing.Endpoint

// Watch implements activate.Endpoints.
func (e endpoints) Watch(ctx context.Context, _ types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case current := <-e:
			apply(current)
		}
	}
}

type nothingKnown struct{}

// Condition implements activate.Functions.
func (nothingKnown) Condition(types.NamespacedName) activator.Condition { return activator.Condition{} }

type fixture struct {
	t         *testing.T
	listings  listings
	endpoints endpoints
	options   Options
	stop      context.CancelFunc
	ended     chan error
}

func start(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	return startWith(t, func(*Deps) {}, change...)
}

func startWith(t *testing.T, with func(*Deps), change ...func(*Options)) *fixture {
	t.Helper()
	options := DefaultOptions()
	options.Host, options.LoadAddress, options.MetricsAddress = loopback.Host, loopback.Address(t), loopback.Address(t)
	options.DrainDelay, options.Activator.AllowLoopback = 0, true
	for _, c := range change {
		c(&options)
	}
	require.NoError(t, flags.Validate(&options))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	f := &fixture{t: t, listings: make(listings), endpoints: make(endpoints), options: options, stop: stop, ended: make(chan error, 1)}
	deps := Deps{
		Listings: f.listings, Endpoints: f.endpoints, Functions: nothingKnown{}, Registry: prometheus.NewPedanticRegistry(), Log: logr.Discard(),
	}
	with(&deps)
	g := New(deps, options)
	go func() { f.ended <- g.Run(ctx) }()
	t.Cleanup(stop)
	f.awaitStatus(options.MetricsAddress, "/healthz", http.StatusOK)
	return f
}

func (f *fixture) get(address, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	require.NoError(f.t, err)
	return new(http.Transport).RoundTrip(request)
}

// awaitStatus returns when an address answers so.
func (f *fixture) awaitStatus(address, path string, status int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		answer, err := f.get(address, path)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == status
	}, time.Minute, 5*time.Millisecond, "%s%s does not answer %d", address, path, status)
}

func (f *fixture) metrics() string {
	f.t.Helper()
	answer, err := f.get(f.options.MetricsAddress, "/metrics")
	require.NoError(f.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(f.t, err)
	require.NoError(f.t, answer.Body.Close())
	return string(text)
}

func price(port int32) activation.Listing {
	return activation.Listing{Function: types.NamespacedName{Namespace: "shop", Name: "price"}, UID: "1", Port: port}
}

func addressOf(port int32) string { return net.JoinHostPort(loopback.Host, strconv.Itoa(int(port))) }

func TestAGatewayIsReadyOnceItListensForAllFunctions(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusServiceUnavailable)
	port := int32(loopback.Reserve(t))
	f.listings <- []activation.Listing{price(port)}
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
	answer, err := f.get(addressOf(port), "/healthz")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "1", answer.Header.Get(activation.HeaderFunction))
	f.stop()
	require.NoError(t, <-f.ended)
}

func TestADrainingGatewayCompletesItsRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	port := int32(loopback.Reserve(t))
	f.listings <- []activation.Listing{price(port)}
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
	texts := make(chan string, 1)
	go func() {
		answer, err := f.get(addressOf(port), "/")
		if err != nil {
			texts <- err.Error()
			return
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		texts <- string(text)
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(f.metrics(), "rouse_gateway_requests_waiting 1")
	}, time.Minute, 5*time.Millisecond)
	f.stop()
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer pod.Close()
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusServiceUnavailable)
	f.endpoints <- []routing.Endpoint{{Address: pod.Listener.Addr().String(), Ready: true, Function: true}}
	require.Equal(t, "hello", <-texts)
	require.NoError(t, <-f.ended)
	answer, err := f.get(addressOf(port), "/healthz")
	if err == nil {
		require.NoError(t, answer.Body.Close())
	}
	require.Error(t, err)
}

func TestADrainingGatewayServesWhileItIsListed(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Addresses, o.ListedTimeout = []string{"10.0.0.1", "fd00::1"}, time.Hour })
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer pod.Close()
	port := int32(loopback.Reserve(t))
	listed := price(port)
	listed.Addresses = []string{"10.0.0.2", "fd00::1"}
	f.listings <- []activation.Listing{listed}
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
	f.stop()
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusServiceUnavailable)
	go func() {
		f.endpoints <- []routing.Endpoint{{Address: pod.Listener.Addr().String(), Ready: true, Function: true}}
	}()
	for range 20 {
		f.awaitStatus(addressOf(port), "/", http.StatusOK)
	}
	listed.Addresses = []string{"10.0.0.2"}
	f.listings <- []activation.Listing{listed}
	require.NoError(t, <-f.ended)
}

func TestADrainingGatewayStopsAfterListedTimeout(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Addresses, o.ListedTimeout = []string{"10.0.0.1"}, 10*time.Millisecond })
	listed := price(int32(loopback.Reserve(t)))
	listed.Addresses = []string{"10.0.0.1"}
	f.listings <- []activation.Listing{listed}
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
	f.stop()
	require.NoError(t, <-f.ended)
}

// from dials from an address of this machine.
func from(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
}

// transport speaks HTTP/2, from an address.
func (o *outside) transport(address string) *http.Transport {
	transport := &http.Transport{
		TLSClientConfig: o.client.Clone(), ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return from(address).DialContext(ctx, "tcp", o.options.Entrance.TLSAddress)
		},
	}
	o.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// trickle is a body of which a byte comes, and no more.
type trickle struct {
	sent bool
	done <-chan struct{}
}

// Read implements io.Reader.
func (b *trickle) Read(p []byte) (int, error) {
	if b.sent {
		<-b.done
		return 0, io.EOF
	}
	b.sent, p[0] = true, 'x'
	return 1, nil
}

// onLoopback are the pods of Services, each at the port of its own.
type onLoopback struct{}

// Watch implements activate.Endpoints.
func (onLoopback) Watch(ctx context.Context, _ types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	apply([]routing.Endpoint{{Address: addressOf(port), Ready: true}})
	<-ctx.Done()
	return nil
}

// The attacker has as many requests as the host: before, it took all of them.
func TestConnectionsOfHTTP2OfOneAddressLeaveAHostToOthers(t *testing.T) {
	t.Parallel()
	const connections, streams, requests = 4, 100, 200
	var running atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = io.WriteString(w, "served")
		}
	}))
	t.Cleanup(backend.Close)
	o := startOutside(t, func(_ *Deps, o *Options) { o.MaxConnections, o.APIRules.RequestsPerAPIRule = 4*requests, requests })
	o.exposures <- []apirule.Exposure{exposed("shop.example.com", o.behind(backend), func(rule *v2.Rule) {
		rule.Methods = []v2.Method{"GET", "POST"}
	})}
	o.awaitStatus(o.options.MetricsAddress, "/readyz", http.StatusOK)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	for range connections {
		transport := o.transport("127.0.0.1")
		for range streams {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.example.com/", &trickle{done: ctx.Done()})
			require.NoError(t, err)
			go func() {
				if answer, err := transport.RoundTrip(request); err == nil {
					_ = answer.Body.Close()
				}
			}()
		}
	}
	require.Eventually(t, func() bool { return running.Load() >= requests/4 }, time.Minute, time.Millisecond) // some made room for others

	honest := o.transport("127.0.0.2")
	for range 2 * requests {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.example.com/", http.NoBody)
		require.NoError(t, err)
		answer, err := honest.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
}

// ask sends a request to a port, from an address.
func (f *fixture) ask(port int32, address, path string) net.Conn {
	f.t.Helper()
	conn, err := from(address).DialContext(f.t.Context(), "tcp", net.JoinHostPort(loopback.Host, strconv.Itoa(int(port))))
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n")
	if err != nil {
		require.ErrorContains(f.t, err, "reset")
	}
	return conn
}

// Callers of Functions that do not start stay connected, because they are not slow.
func TestConnectionsToFunctionsThatDoNotStartAreShared(t *testing.T) {
	t.Parallel()
	const hostile, alike, shop = 0, 1, 2
	for name, tc := range map[string]struct {
		address  func(i int) string
		function func(i int) int
		most     int
	}{
		"by the Function":  {func(i int) string { return "127.0.1." + strconv.Itoa(i+1) }, func(int) int { return hostile }, 3},
		"by the namespace": {func(i int) string { return "127.0.1." + strconv.Itoa(i+1) }, func(i int) int { return []int{hostile, alike}[i%2] }, 4},
		"by the caller":    {func(int) string { return "127.0.1.1" }, func(i int) int { return []int{hostile, shop}[i%2] }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(o *Options) { o.MaxConnections, o.ConnectionsPerFunction = 8, 3 })
			var all []activation.Listing
			for _, each := range []types.NamespacedName{{Namespace: "hostile", Name: "a"}, {Namespace: "hostile", Name: "b"}, {Namespace: "shop", Name: "price"}} {
				all = append(all, activation.Listing{Function: each, UID: types.UID(each.String()), Port: int32(loopback.Reserve(t))})
			}
			f.listings <- all
			f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
			for i := range tc.most {
				f.ask(all[tc.function(i)].Port, tc.address(i), "/")
			}
			require.Eventually(t, func() bool {
				return strings.Contains(f.metrics(), fmt.Sprintf("rouse_gateway_requests_waiting %d\n", tc.most))
			}, time.Minute, 5*time.Millisecond)

			_, err := f.ask(all[tc.function(tc.most)].Port, tc.address(tc.most), "/").Read(make([]byte, 1))
			require.Error(t, err, "it is closed")
			require.Contains(t, f.metrics(), "rouse_gateway_connections_refused_total 1\n")
			answer, err := http.ReadResponse(bufio.NewReader(f.ask(all[shop].Port, "127.0.2.1", "/healthz")), nil)
			require.NoError(t, err, "others are answered")
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode)
		})
	}
}
