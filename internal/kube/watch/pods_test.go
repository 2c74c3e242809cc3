package watch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/eventbridge/sink"
	"github.com/rouse-run/rouse/gateway/activator"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/scaler/httpload"
)

// podAt returns a pod that runs on a node.
func podAt(namespace, name string, addresses ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "function", Image: "price"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, address := range addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: address})
	}
	if len(addresses) > 0 {
		p.Status.PodIP = addresses[0]
	}
	return p
}

// startPod creates a pod until the end of the test. A pod has no addresses before its kubelet reports them.
func startPod(t *testing.T, env *envtest.Environment, p *corev1.Pod) {
	t.Helper()
	status := p.Status
	require.NoError(t, env.Client.Create(t.Context(), p))
	t.Cleanup(func() { // no kubelet does, and its addresses would remain in use
		require.NoError(t, env.Client.Delete(context.WithoutCancel(t.Context()), p, client.GracePeriodSeconds(0)))
	})
	p.Status = status
	require.NoError(t, env.Client.Status().Update(t.Context(), p))
}

func ending(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = new(metav1.Now())
	return p
}

func onNode(p *corev1.Pod) *corev1.Pod {
	p.Spec.HostNetwork = true
	return p
}

func TestAnAddressBelongsToTheNamespaceWhosePodsHaveIt(t *testing.T) {
	t.Parallel()
	const address = "10.0.0.1"
	ours, theirs := func() *corev1.Pod { return podAt("shop", "price", address) }, func() *corev1.Pod { return podAt("other", "victim", address) }
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want bool
	}{
		"no pod's":                       {},
		"a pod's":                        {pods: []*corev1.Pod{ours()}, want: true},
		"another namespace's":            {pods: []*corev1.Pod{theirs()}},
		"two pods' of the namespace":     {pods: []*corev1.Pod{ours(), podAt("shop", "second", address)}, want: true},
		"pods' of two namespaces":        {pods: []*corev1.Pod{ours(), theirs()}},
		"a pod's that ends":              {pods: []*corev1.Pod{ending(ours())}, want: true},
		"a pod's that ended":             {pods: []*corev1.Pod{func() *corev1.Pod { p := ours(); p.Status.Phase = corev1.PodSucceeded; return p }()}},
		"a pod's that failed":            {pods: []*corev1.Pod{func() *corev1.Pod { p := ours(); p.Status.Phase = corev1.PodFailed; return p }()}},
		"a pod's that no node has":       {pods: []*corev1.Pod{func() *corev1.Pod { p := ours(); p.Spec.NodeName = ""; return p }()}},
		"given from one that ends":       {pods: []*corev1.Pod{ours(), ending(theirs())}, want: true},
		"given to another while it ends": {pods: []*corev1.Pod{ending(ours()), theirs()}},
		"both end":                       {pods: []*corev1.Pod{ending(ours()), ending(theirs())}},
		"given within the namespace":     {pods: []*corev1.Pod{ending(ours()), podAt("shop", "second", address), ending(theirs())}, want: true},
		"a node's":                       {pods: []*corev1.Pod{onNode(ours())}, want: true},
		"a node's with others' pods":     {pods: []*corev1.Pod{onNode(ours()), onNode(theirs())}, want: true},
		"a node's with others' alone":    {pods: []*corev1.Pod{onNode(theirs())}},
		"a node's that is another's pod": {pods: []*corev1.Pod{onNode(ours()), theirs()}},
		"a pod's that another's node has": {
			pods: []*corev1.Pod{ours(), onNode(theirs())}, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := newPlaces()
			for _, p := range tc.pods {
				all.changed(nil, p)
			}
			require.Equal(t, tc.want, all.ask(newSignal(), "shop")(netip.MustParseAddr(address)))
		})
	}
}

func TestAPodHasAllOfItsAddresses(t *testing.T) {
	t.Parallel()
	all := newPlaces()
	all.changed(nil, podAt("shop", "price", "10.0.0.1", "fd00::1", "no address"))
	isPod := all.ask(newSignal(), "shop")
	require.True(t, isPod(netip.MustParseAddr("10.0.0.1")))
	require.True(t, isPod(netip.MustParseAddr("fd00::1")))
}

func TestSubscriberIsNotifiedWhenAnAddressMovesToAnotherPod(t *testing.T) {
	t.Parallel()
	all := newPlaces()
	asker, other := newSignal(), newSignal()
	address := netip.MustParseAddr("10.0.0.1")
	isRaised := func() bool {
		select {
		case <-asker:
			return true
		default:
			return false
		}
	}
	isPod := all.ask(asker, "shop")
	require.False(t, all.ask(other, "shop")(netip.MustParseAddr("10.0.0.2")))
	require.False(t, isPod(address))
	require.False(t, isRaised())

	starting := podAt("shop", "price")
	all.changed(nil, starting)
	require.False(t, isRaised(), "the pod has no address yet")
	running := podAt("shop", "price", "10.0.0.1")
	all.changed(starting, running)
	require.True(t, isRaised())
	require.True(t, isPod(address))
	all.changed(running, running.DeepCopy())
	require.False(t, isRaised(), "no relevant change")

	moved := podAt("shop", "price", "10.0.0.9")
	all.changed(running, moved)
	require.True(t, isRaised())
	require.False(t, isPod(address), "the node has restarted")
	all.changed(moved, running)
	require.True(t, isRaised())
	ended := running.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	all.changed(running, ended)
	require.True(t, isRaised())
	require.False(t, isPod(address))
	all.changed(ended, nil)
	all.changed(nil, podAt("other", "victim", "10.0.0.1"))
	require.True(t, isRaised())
	require.False(t, isPod(address), "another namespace's pod has it now")

	all.forget(asker)
	all.forget(other)
	all.changed(podAt("other", "victim", "10.0.0.1"), nil)
	require.False(t, isRaised())
	require.Empty(t, all.asked)
	require.Empty(t, all.askers)
	require.Empty(t, all.claims)
}

// The EndpointSlice arrives after the pod's address, but by another watch.
func TestAnEndpointWaitsForThePodThatHasItsAddress(t *testing.T) {
	t.Parallel()
	c, informers := newFakeCache(t, &corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Pod{})
	pods := informers[2]
	require.NoError(t, c.Create(t.Context(), service()))
	listed := slice(pod("10.0.0.1", new(false), new(false)))
	require.NoError(t, c.Create(t.Context(), &listed))
	name := types.NamespacedName{Namespace: "shop", Name: "price"}
	applied := collect(t, func(ctx context.Context, apply func([]routing.Endpoint)) error {
		return NewEndpoints(c, logr.Discard()).Watch(ctx, name, 80, apply)
	})
	require.Empty(t, next(t, applied))

	pods.Add(podAt("other", "victim", "10.0.0.2"))
	running := podAt("shop", "price-1", "10.0.0.1")
	pods.Add(running)
	require.Equal(t, []routing.Endpoint{{Address: "10.0.0.1:8080", Function: true}}, next(t, applied))
	pods.Delete(running)
	require.Empty(t, next(t, applied), "its slice may be old")
	require.Empty(t, applied)
}

func TestAForgedSliceLeadsToNoPodOfAnotherNamespaceOnARealAPIServer(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	victim, attacker := env.Namespace(t), env.Namespace(t)
	objects, err := cache.New(env.Config, cache.Options{Scheme: env.Scheme, ByObject: CacheObjects(), NewInformer: NewInformer})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = objects.Start(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	startPod(t, env, podAt(victim, "price", "10.7.0.1"))
	startPod(t, env, podAt(attacker, "own", "10.7.0.2"))
	ended := podAt(attacker, "ended", "10.7.0.3")
	ended.Status.Phase = corev1.PodSucceeded
	startPod(t, env, ended)
	require.NoError(t, env.Client.Create(t.Context(), service(func(s *corev1.Service) { s.Namespace = attacker })))

	endpoints := NewEndpoints(objects, logr.Discard())
	name := types.NamespacedName{Namespace: attacker, Name: "price"}
	applied := collect(t, func(ctx context.Context, apply func([]routing.Endpoint)) error {
		return endpoints.Watch(ctx, name, 80, apply)
	})
	require.Empty(t, next(t, applied))

	forged := slice(pod("10.7.0.1", new(true), new(false)), pod("10.7.0.3", new(true), new(false)), pod("10.7.0.4", new(true), new(false)))
	forged.Namespace, forged.Name = attacker, "forged"
	forged.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
	forged.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: attacker, Name: "own"}
	require.NoError(t, env.Client.Create(t.Context(), &forged))
	genuine := slice(pod("10.7.0.2", new(true), new(false)))
	genuine.Namespace, genuine.Name = attacker, "genuine"
	require.NoError(t, env.Client.Create(t.Context(), &genuine))
	own := routing.Endpoint{Address: "10.7.0.2:8080", Ready: true, Function: true}
	require.Equal(t, []routing.Endpoint{own}, next(t, applied), "only the namespace's own running pod may be reported")

	startPod(t, env, podAt(attacker, "late", "10.7.0.4"))
	require.Equal(t, []routing.Endpoint{own, {Address: "10.7.0.4:8080", Ready: true, Function: true}}, next(t, applied))
	require.Empty(t, applied)
}

// Lists are read in pages of 500, by an API server that does not stream them.
func TestListsOfPodsAreReadInReducedPages(t *testing.T) {
	t.Parallel()
	var asked []metav1.ListOptions
	full := podAt("shop", "price", "10.0.0.1")
	full.Annotations = map[string]string{"long": "text"}
	list := inPages(func(_ context.Context, options metav1.ListOptions) (kuberuntime.Object, error) {
		asked = append(asked, options)
		return &corev1.PodList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: []corev1.Pod{*full}}, nil
	})
	page, err := list(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 500})
	require.NoError(t, err)
	require.Equal(t, []metav1.ListOptions{{Limit: 500}}, asked)
	cut := podAt("shop", "price", "10.0.0.1")
	cut.Labels, cut.Spec.Containers, cut.Status.PodIP = nil, nil, ""
	require.Equal(t, &corev1.PodList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: []corev1.Pod{*cut}}, page)
	require.Equal(t, placeOf(full), placeOf(cut))
}

func TestTenThousandPodsTakeLittleMemory(t *testing.T) { // not parallel: it measures the heap
	const pods, most = 10_000, 12 << 20
	transform := CacheObjects()
	var keep func(any) (any, error)
	for _, options := range transform {
		keep = options.Transform
	}
	before := heap()
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	all := newPlaces()
	for i := range pods {
		p := podAt(fmt.Sprintf("namespace-%d", i%100), fmt.Sprintf("function-%d-5d4f8c7b9-abcde", i), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
		p.ResourceVersion = strconv.Itoa(1_000_000 + i)
		kept, err := keep(p)
		require.NoError(t, err)
		require.NoError(t, store.Add(kept))
		all.changed(nil, kept)
	}
	require.Less(t, heap()-before, int64(most))
	runtime.KeepAlive(store)
	runtime.KeepAlive(all)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// mostCalls suffice to reach each of two pods, since equal ones are picked round-robin.
const mostCalls = 10

// hostile is a namespace whose Function has a pod and a forged slice with the pod of another namespace.
type hostile struct {
	endpoints *Endpoints
	service   types.NamespacedName
	own       string       // of its own pod
	victim    atomic.Int64 // connections to the other namespace's pod
	answered  atomic.Int64 // calls answered by its own pod
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

// serve counts the connections to a local server at an address.
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

// startable reports Functions as unknown.
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
		exposed.Close() // forces a new connection
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
