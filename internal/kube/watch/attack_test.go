package watch

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/scaler/httpload"
)

// mostCalls are enough for each of two pods to get some, as equal ones take turns.
const mostCalls = 10

// hostile is a namespace whose Function has a pod and, by a forged slice, that of another namespace.
type hostile struct {
	endpoints *Endpoints
	service   types.NamespacedName
	own       string       // the address of its pod
	victim    atomic.Int64 // connections to the other namespace's pod
	answered  atomic.Int64 // calls that its own pod has answered
}

func newHostile(t *testing.T, change ...func(*corev1.Service)) *hostile {
	t.Helper()
	const ownIP, victimIP = "127.0.0.1", "127.0.0.2"
	c, _ := newFakeCache(t)
	h := &hostile{endpoints: NewEndpoints(c, logr.Discard()), service: types.NamespacedName{Namespace: "shop", Name: "price"}}
	h.own = serve(t, ownIP, &atomic.Int64{}, func(w http.ResponseWriter, _ *http.Request) {
		h.answered.Add(1)
		_, _ = io.WriteString(w, "{}")
	})
	victim := serve(t, victimIP, &h.victim, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"running": 7}`) })
	require.NoError(t, c.Create(t.Context(), service(change...)))
	for name, address := range map[string]string{"genuine": h.own, "forged": victim} {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		number, err := strconv.ParseInt(port, 10, 32)
		require.NoError(t, err)
		s := slice(pod(host, new(true), new(false)))
		s.Name, s.Ports[1].Port = name, new(int32(number))
		s.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
		require.NoError(t, c.Create(t.Context(), &s))
	}
	h.endpoints.pods.changed(nil, podAt("shop", "price-1", ownIP))
	h.endpoints.pods.changed(nil, podAt("other", "victim", victimIP))
	return h
}

// serve counts the connections to a server at an address of this machine.
func serve(t *testing.T, ip string, connections *atomic.Int64, handle http.HandlerFunc) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(ip, "0"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handle)
	server.Listener = listener
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

func TestAForgedSliceLeadsAGatewayToNoPodOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	options, table := activator.DefaultOptions(), activator.NewTable()
	options.AllowLoopback = true
	all := activator.New(activator.Deps{
		Endpoints: h.endpoints, Functions: startable{}, Registry: prometheus.NewRegistry(), Log: logr.Discard(),
		Begin: func(name types.NamespacedName) activator.Request { return table.Begin(name) },
	}, options)
	server := httptest.NewServer(all.Handler(h.service, "uid"))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		all.Close()
	})
	for range mostCalls {
		require.Equal(t, http.StatusOK, get(t, server.URL))
	}
	require.EqualValues(t, mostCalls, h.answered.Load())
	require.Zero(t, h.victim.Load())
}

// startable are Functions that nothing is known of.
type startable struct{}

func (startable) Condition(types.NamespacedName) activator.Condition { return activator.Condition{} }

func TestAForgedSliceLeadsAnAPIRuleToNoPodOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	h := newHostile(t, func(s *corev1.Service) { s.OwnerReferences = nil })
	guard := dialguard.Guard{AllowLoopback: true}
	exposed := apirules.New(apirules.Deps{
		Endpoints: h.endpoints, Guard: guard, Now: time.Now, Registry: prometheus.NewRegistry(), Log: logr.Discard(),
		Keys: jwt.NewKeys(jwt.KeysOptions{Guard: guard, Now: time.Now}),
	}, apirules.DefaultOptions())
	rule := &v2.Rule{Path: "/*", Methods: []v2.Method{http.MethodGet}, NoAuth: new(true)}
	exposed.Set([]apirule.Exposure{{APIRule: h.service, UID: "1", Host: "127.0.0.1", Rules: []apirule.Rule{
		{Spec: rule, Backend: apirule.Backend{Service: h.service, Port: 80, Address: "10.96.0.1"}, Timeout: timeout},
	}}})
	server := httptest.NewServer(exposed)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		exposed.Close()
	})
	for range mostCalls {
		require.Equal(t, http.StatusOK, get(t, server.URL))
		exposed.Close() // the next one needs another connection
	}
	require.EqualValues(t, mostCalls, h.answered.Load())
	require.Zero(t, h.victim.Load())
}

func get(t *testing.T, url string) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

func TestAForgedSliceLeadsABridgeToNoPodOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	ofNobody := func(s *corev1.Service) { s.OwnerReferences, s.Spec.Selector = nil, nil }
	for name, h := range map[string]*hostile{"a Function's": newHostile(t), "a Service without a selector": newHostile(t, ofNobody)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := sink.NewNetwork(sink.DefaultOptions())
			t.Cleanup(network.Close)
			target := sink.Target{URL: "http://price.shop.svc.cluster.local", Service: h.service, Port: 80}
			to, err := sink.New(target, sink.Deps{Network: network, Endpoints: h.endpoints, Log: logr.Discard()})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
			var running sync.WaitGroup
			running.Go(func() { _ = to.Run(ctx) })
			t.Cleanup(func() {
				stop()
				running.Wait()
			})
			_, err = to.Gate().Wait(t.Context())
			require.NoError(t, err)
			for range mostCalls {
				_, err := to.Send(t.Context(), &cloudevent.Event{ID: "1", Source: "shop", Type: "order.received.v1"})
				require.NoError(t, err)
			}
			require.EqualValues(t, mostCalls, h.answered.Load())
			require.Zero(t, h.victim.Load())
		})
	}
}

func TestAForgedSliceLeadsAScalerToNoPodOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	client := httpload.NewPods(httpload.PodsOptions{AllowLoopback: true})
	t.Cleanup(client.Close)
	found := next(t, collect(t, func(ctx context.Context, apply func([]routing.Endpoint)) error {
		return h.endpoints.Watch(ctx, h.service, 80, apply)
	}))
	require.Equal(t, []routing.Endpoint{{Address: h.own, Ready: true, Function: true}}, found)
	loads, err := client.Loads(t.Context(), h.service.Namespace, found)
	require.NoError(t, err)
	require.Len(t, loads, 1)
	require.Contains(t, loads, h.own)
	require.Zero(t, h.victim.Load())
}
