package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/internal/activation"
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

// endpoints are the same for all Functions; none before they are given.
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
	options.DrainDelay, options.Activate.AllowLoopback = 0, true
	for _, c := range change {
		c(&options)
	}
	require.NoError(t, options.Validate())
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

func TestAGatewayThatStopsAnswersWhatItHas(t *testing.T) {
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

func TestAGatewayGoesOnWhileCallersAreLedToIt(t *testing.T) {
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

func TestAGatewayThatStaysListedStopsAllTheSame(t *testing.T) {
	t.Parallel()
	f := start(t, func(o *Options) { o.Addresses, o.ListedTimeout = []string{"10.0.0.1"}, 10*time.Millisecond })
	listed := price(int32(loopback.Reserve(t)))
	listed.Addresses = []string{"10.0.0.1"}
	f.listings <- []activation.Listing{listed}
	f.awaitStatus(f.options.MetricsAddress, "/readyz", http.StatusOK)
	f.stop()
	require.NoError(t, <-f.ended)
}
