package activator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

func endpoint(address string, ready, terminating *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address}, NodeName: new("node-of-" + strings.ReplaceAll(address, ":", "-")),
		Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating},
	}
}

func slice(family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, AddressType: family, Endpoints: endpoints}
}

func TestOnlyReadyGatewaysAreListed(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	one := []gateway{{address: "10.0.0.1", node: "node-of-10.0.0.1"}}
	ours := slice(v4, endpoint("10.0.0.9", yes, no))
	ours.Labels[discoveryv1.LabelManagedBy] = activation.ManagedBy
	for name, tc := range map[string]struct {
		list     []discoveryv1.EndpointSlice
		want     map[discoveryv1.AddressType][]gateway
		families []discoveryv1.AddressType
	}{
		"none": {want: map[discoveryv1.AddressType][]gateway{}},
		"a slice without endpoints has no family": {
			list: []discoveryv1.EndpointSlice{slice(v4)}, want: map[discoveryv1.AddressType][]gateway{},
		},
		"ready": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", yes, no))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{v4: one},
		},
		"without conditions it is ready": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", nil, nil))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{v4: one},
		},
		"a gateway that is not ready still has a family": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", no, no))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"a terminating gateway": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", yes, yes))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"a gateway that does not respond": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.6.6.6", yes, no))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"two families, and one gateway in two slices": {
			list: []discoveryv1.EndpointSlice{
				slice(v6, endpoint("fd00::1", yes, no)), slice(v4, endpoint("10.0.0.1", yes, no)), slice(v4, endpoint("10.0.0.1", yes, no)),
			},
			families: []discoveryv1.AddressType{v4, v6},
			want:     map[discoveryv1.AddressType][]gateway{v4: one, v6: {{address: "fd00::1", node: "node-of-fd00--1"}}},
		},
		"host names are ignored": {
			list: []discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeFQDN, endpoint("gateway.example.com", yes, no))},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"a slice of activators lists no gateways": {list: []discoveryv1.EndpointSlice{ours}, want: map[discoveryv1.AddressType][]gateway{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := gatewaysOf(tc.list, func(address string) bool { return address == "10.6.6.6" })
			require.Equal(t, tc.want, found.ready)
			require.Equal(t, tc.families, found.families)
		})
	}
}

func TestAFunctionIsAwakeWhileAPodIsReady(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	activators := slice(v4, endpoint("10.0.0.9", yes, no))
	activators.Labels[discoveryv1.LabelManagedBy] = activation.ManagedBy
	for name, tc := range map[string]struct {
		list []discoveryv1.EndpointSlice
		want bool
	}{
		"no slice":                  {},
		"no pod":                    {list: []discoveryv1.EndpointSlice{slice(v4)}},
		"a pod is ready":            {list: []discoveryv1.EndpointSlice{slice(v4), slice(v4, endpoint("10.0.0.1", yes, no))}, want: true},
		"a pod is not ready":        {list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", no, no))}},
		"the last pod ends":         {list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", yes, yes))}},
		"an activator is not a pod": {list: []discoveryv1.EndpointSlice{activators}},
		"one of two pods is ready":  {list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", no, no), endpoint("10.0.0.2", yes, no))}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, isAwake(tc.list))
		})
	}
}

func TestTheCacheReducesForeignSlicesToReadiness(t *testing.T) {
	t.Parallel()
	full := slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", new(true), nil))
	full.Annotations = map[string]string{"note": "long"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager"}}
	full.Ports = []discoveryv1.EndpointPort{{Port: new(int32(8080))}}
	full.Endpoints[0].Hints = &discoveryv1.EndpointHints{}
	kept, err := withoutDetails(full.DeepCopy())
	require.NoError(t, err)
	want := slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", new(true), nil))
	require.Equal(t, &want, kept)

	full.Labels[discoveryv1.LabelManagedBy] = activation.ManagedBy
	kept, err = withoutDetails(full.DeepCopy())
	require.NoError(t, err)
	full.Annotations = nil
	require.Equal(t, &full, kept, "of ours everything but annotations")
}

func TestEachGatewayIsQueriedAtOneAddress(t *testing.T) {
	t.Parallel()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	service := types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}
	of := func(name, service string, s discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		s.Namespace, s.Name, s.Labels = "rouse-system", name, map[string]string{discoveryv1.LabelServiceName: service}
		return &s
	}
	yes, no := new(true), new(false)
	four := of("4", "rouse-gateway", slice(v4, endpoint("10.0.0.2", yes, no), endpoint("10.0.0.1", yes, no), endpoint("10.0.0.3", no, no)))
	six := of("6", "rouse-gateway", slice(v6, endpoint("fd00::1", yes, no), endpoint("fd00::2", yes, no)))
	other := of("other", "rouse-scaler", slice(v4, endpoint("10.0.0.9", yes, no)))
	for _, tc := range []struct {
		there []client.Object
		want  []string
	}{
		{[]client.Object{four, six, other}, []string{"10.0.0.1", "10.0.0.2"}},
		{[]client.Object{six, other}, []string{"fd00::1", "fd00::2"}},
		{[]client.Object{other}, nil},
	} {
		reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.there...).Build()
		addresses, err := Gateways(t.Context(), reader, service)
		require.NoError(t, err)
		require.Equal(t, tc.want, addresses)
	}
}

func TestAGatewayIsLostAfterTwoMissesAndBackWithItsFirstAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		misses  map[string]int
		present []string
		answers map[string]bool
		want    map[string]int
	}{
		"it answers":                    {present: []string{"a"}, answers: map[string]bool{"a": true}, want: map[string]int{}},
		"a first miss":                  {present: []string{"a"}, answers: map[string]bool{"a": false}, want: map[string]int{"a": 1}},
		"a second miss":                 {misses: map[string]int{"a": 1}, present: []string{"a"}, answers: map[string]bool{"a": false}, want: map[string]int{"a": 2}},
		"a third miss":                  {misses: map[string]int{"a": 2}, present: []string{"a"}, answers: map[string]bool{"a": false}, want: map[string]int{"a": 2}},
		"an answer after one miss":      {misses: map[string]int{"a": 1}, present: []string{"a"}, answers: map[string]bool{"a": true}, want: map[string]int{}},
		"an answer after many":          {misses: map[string]int{"a": 2}, present: []string{"a"}, answers: map[string]bool{"a": true}, want: map[string]int{}},
		"it was not probed":             {misses: map[string]int{"a": 1}, present: []string{"a"}, want: map[string]int{"a": 1}},
		"it was removed":                {misses: map[string]int{"a": 2}, want: map[string]int{}},
		"another one answers meanwhile": {misses: map[string]int{"a": 1}, present: []string{"a", "b"}, answers: map[string]bool{"a": false, "b": true}, want: map[string]int{"a": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, next(tc.misses, tc.present, tc.answers))
		})
	}
}

func TestTheProberReportsLostAndReturnedGateways(t *testing.T) {
	t.Parallel()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	listed := slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", new(true), nil), endpoint("10.0.0.2", new(true), nil))
	listed.ObjectMeta = metav1.ObjectMeta{Namespace: "rouse-system", Name: "g", Labels: map[string]string{discoveryv1.LabelServiceName: "rouse-gateway"}}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&listed).WithIndex(&discoveryv1.EndpointSlice{}, serviceIndex, indexService).Build()
	reachable, ok := newNetwork(), func(http.ResponseWriter, *http.Request) {}
	stop := reachable.serve(t, "10.0.0.1", ok)
	reachable.serve(t, "10.0.0.2", ok)
	changes := make(chan struct{}, 100)
	probes := &prober{
		reader: reader, service: types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}, health: newCaller(reachable.dial),
		changed: func(context.Context) { changes <- struct{}{} }, log: logr.Discard(),
	}
	require.False(t, probes.probe(t.Context(), true))
	require.False(t, probes.lost("10.0.0.1"))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- probes.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	stop()
	await(t, changes)
	require.True(t, probes.lost("10.0.0.1"))
	require.False(t, probes.lost("10.0.0.2"))
	reachable.serve(t, "10.0.0.1", ok)
	await(t, changes)
	require.False(t, probes.lost("10.0.0.1"))
}

// network routes addresses of gateways to servers of the test.
type network struct {
	mu    sync.Mutex
	hosts map[string]string
}

func newNetwork() *network { return &network{hosts: map[string]string{}} }

// serve starts a server for a gateway's address, on all ports. The returned function stops it.
func (n *network) serve(t *testing.T, address string, handler http.HandlerFunc) (stop func()) {
	t.Helper()
	server := httptest.NewServer(handler)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[address] = server.Listener.Addr().String()
	stop = sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.hosts, address)
		server.CloseClientConnections()
		server.Close()
	})
	t.Cleanup(stop)
	return stop
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	to, ok := n.hosts[host]
	n.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("connect to %s: no route to host", address)
	}
	return (&net.Dialer{}).DialContext(ctx, kind, to)
}

func TestAnActivatorReportsItsFunction(t *testing.T) {
	t.Parallel()
	reachable := newNetwork()
	reachable.serve(t, "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(activation.HeaderFunction, "uid of "+r.Method+" "+r.Host+r.URL.Path)
	})
	reachable.serve(t, "fd00::1", func(w http.ResponseWriter, r *http.Request) { w.Header().Set(activation.HeaderFunction, r.Host) })
	asked := newCaller(reachable.dial)
	function, err := asked.FunctionAt(t.Context(), "10.0.0.1", 12345)
	require.NoError(t, err)
	require.Equal(t, types.UID("uid of GET 10.0.0.1:12345/healthz"), function)
	function, err = asked.FunctionAt(t.Context(), "fd00::1", 12345)
	require.NoError(t, err)
	require.Equal(t, types.UID("[fd00::1]:12345"), function)
	require.NoError(t, asked.Works(t.Context(), "10.0.0.1"))
	require.Error(t, asked.Works(t.Context(), "10.0.0.2"))
}

func TestAnUnexpectedActivatorResponseIsAnError(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, handler := range map[string]http.HandlerFunc{
		"with another status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"with a redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(activation.HeaderFunction, "uid")
			w.Header().Set("Location", "http://10.0.0.1:12345/elsewhere")
			w.WriteHeader(http.StatusFound)
		},
		"never":                  func(_ http.ResponseWriter, r *http.Request) { awaitEnd(r, release) },
		"with an endless header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 2*maxHeader)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reachable := newNetwork()
			reachable.serve(t, "10.0.0.1", handler)
			function, err := newCaller(reachable.dial).FunctionAt(t.Context(), "10.0.0.1", 12345)
			require.Error(t, err)
			require.Empty(t, function)
		})
	}
}

func TestTheBodyOfAnAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	reachable, gone := newNetwork(), make(chan struct{})
	reachable.serve(t, "10.0.0.1", func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.Header().Set(activation.HeaderFunction, "uid")
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	function, err := newCaller(reachable.dial).FunctionAt(t.Context(), "10.0.0.1", 12345)
	require.NoError(t, err)
	require.Equal(t, types.UID("uid"), function)
	await(t, gone) // the connection is not reused
}

// awaitEnd holds a request until its client or the test ends.
func awaitEnd(r *http.Request, release <-chan struct{}) {
	select {
	case <-r.Context().Done():
	case <-release:
	}
}
