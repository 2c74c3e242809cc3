package watch

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

var cluster = envtest.New(envtest.WithGatewayAPI())

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestWatchesWorkOnARealCache(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	namespace := env.Namespace(t)
	objects, err := cache.New(env.Config, cache.Options{Scheme: env.Scheme})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	// The watches begin before the cache, as in a process that starts all parts concurrently.
	routes := collect(t, NewRoutes(objects, routing.Policy{}).Watch)
	name := types.NamespacedName{Namespace: namespace, Name: "price"}
	endpoints := collect(t, func(ctx context.Context, apply func([]routing.Endpoint)) error {
		return NewEndpoints(objects, logr.Discard()).Watch(ctx, name, 80, apply)
	})
	listings := collect(t, NewListings(objects).Watch)
	isListed := collect(t, func(ctx context.Context, apply func(bool)) error {
		return NewListings(objects).WatchFunction(ctx, name, apply)
	})
	running.Go(func() { _ = objects.Start(ctx) })
	require.Empty(t, next(t, routes))
	require.Empty(t, next(t, endpoints))
	require.Empty(t, next(t, listings))
	require.False(t, next(t, isListed))

	sub := subscription("orders", "http://price."+namespace+".svc.cluster.local", 0)
	sub.Namespace = namespace
	require.NoError(t, env.Client.Create(t.Context(), sub))
	require.Equal(t, name, next(t, routes)[0].Service)

	startPod(t, env, podAt(namespace, "price-1", "10.0.0.1"))
	pods := slice(pod("10.0.0.1", new(false), new(false)))
	pods.Namespace = namespace
	require.NoError(t, env.Client.Create(t.Context(), &pods))
	plain := service(func(s *corev1.Service) { s.Namespace, s.OwnerReferences = namespace, nil })
	require.NoError(t, env.Client.Create(t.Context(), plain))
	require.Equal(t, []routing.Endpoint{{Address: "10.0.0.1:8080"}}, next(t, endpoints))
	pods.Endpoints[0].Conditions.Ready = new(true)
	require.NoError(t, env.Client.Update(t.Context(), &pods))
	require.Equal(t, []routing.Endpoint{{Address: "10.0.0.1:8080", Ready: true}}, next(t, endpoints))

	activators := in(namespace, listed("price", 0, activation.FirstPort, "10.0.1.1"))
	require.NoError(t, env.Client.Create(t.Context(), activators))
	require.Equal(t, []activation.Listing{listing(namespace, "price", activation.FirstPort, "10.0.1.1")}, next(t, listings))
	require.True(t, next(t, isListed))
	require.NoError(t, env.Client.Delete(t.Context(), activators))
	require.Empty(t, next(t, listings))
	require.False(t, next(t, isListed))
	require.Empty(t, endpoints, "activators are no pods")

	require.NoError(t, env.Client.Delete(t.Context(), sub))
	require.Empty(t, next(t, routes))
}

const timeout = time.Minute

// fakeCache reads from a fake client; the test raises events.
type fakeCache struct {
	*informertest.FakeInformers
	client.Client
}

func (c fakeCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return c.Client.Get(ctx, key, obj, opts...)
}

func (c fakeCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.Client.List(ctx, list, opts...)
}

func newFakeCache(t *testing.T, kinds ...client.Object) (fakeCache, []*controllertest.FakeInformer) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, eventingv1alpha2.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	c := fakeCache{
		FakeInformers: &informertest.FakeInformers{Scheme: scheme},
		Client:        fake.NewClientBuilder().WithScheme(scheme).Build(),
	}
	var informers []*controllertest.FakeInformer
	for _, kind := range kinds {
		informer, err := c.FakeInformerFor(t.Context(), kind)
		require.NoError(t, err)
		informers = append(informers, informer)
	}
	return c, informers
}

// collect runs a watch and returns a channel of the applied values. The end of the test ends the watch, without an
// error.
func collect[T any](t *testing.T, watch func(context.Context, func(T)) error) <-chan T {
	t.Helper()
	applied := make(chan T, 100)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- watch(ctx, func(v T) { applied <- v }) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return applied
}

func next[T any](t *testing.T, applied <-chan T) T {
	t.Helper()
	select {
	case v := <-applied:
		return v
	case <-time.After(timeout):
		require.FailNow(t, "the watch did not call apply")
		panic("unreachable")
	}
}

func subscription(name, sink string, generation int64) *eventingv1alpha2.Subscription {
	return &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: generation},
		Spec:       eventingv1alpha2.SubscriptionSpec{Sink: sink, Source: "shop", Types: []string{"order.received.v1"}},
	}
}

func names(routes []routing.Route) []string {
	found := make([]string, 0, len(routes))
	for _, route := range routes {
		found = append(found, route.Subscription.Name)
	}
	return found
}

func TestRoutesHaveTheKeysByWhichTheySign(t *testing.T) {
	t.Parallel()
	c, informers := newFakeCache(t, &eventingv1alpha2.Subscription{}, &corev1.Secret{})
	ring := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "rouse-system", Name: "rouse-doors"}}
	signing := subscription("partner", "http://price.shop.svc.cluster.local", 1)
	signing.UID = "b7"
	signing.Spec.Delivery = &eventingv1alpha2.Delivery{Webhook: &eventingv1alpha2.Webhook{SecretName: "partner"}}
	require.NoError(t, c.Create(t.Context(), ring))
	require.NoError(t, c.Create(t.Context(), signing))
	applied := collect(t, NewRoutes(c, routing.Policy{}).WithKeys(client.ObjectKeyFromObject(ring)).Watch)
	require.Equal(t, &routing.Webhook{SecretName: "partner"}, next(t, applied)[0].Delivery.Webhook)

	filled := ring.DeepCopy()
	filled.Data = map[string][]byte{
		"b7.shop.current": []byte("new"), "b7.shop.previous": []byte("old"), "b8.shop.current": []byte("another's"),
	}
	require.NoError(t, c.Update(t.Context(), filled))
	informers[1].Update(ring, filled)
	keys := next(t, applied)[0].Delivery.Webhook.Keys
	require.Equal(t, &routing.SigningKeys{Current: []byte("new"), Previous: []byte("old")}, keys)
	require.NotContains(t, fmt.Sprintf("%v %+v %s", keys, *keys, keys), "new")
}

func TestRoutesFollowTheSubscriptions(t *testing.T) {
	t.Parallel()
	c, informers := newFakeCache(t, &eventingv1alpha2.Subscription{})
	subscriptions := informers[0]
	const sink = "http://price.shop.svc.cluster.local"
	applied := collect(t, NewRoutes(c, routing.Policy{}).Watch)
	require.Empty(t, next(t, applied), "without Subscriptions the set is reported too")

	second := subscription("second", sink, 1)
	require.NoError(t, c.Create(t.Context(), second))
	subscriptions.Add(second)
	require.Equal(t, []string{"second"}, names(next(t, applied)))

	elsewhere := subscription("elsewhere", "http://price.other.svc.cluster.local", 1)
	first := subscription("first", sink, 1)
	deleted := subscription("deleted", sink, 1)
	deleted.Finalizers = []string{"eventing.kyma-project.io"}
	for _, sub := range []*eventingv1alpha2.Subscription{elsewhere, deleted, first} {
		require.NoError(t, c.Create(t.Context(), sub))
	}
	require.NoError(t, c.Delete(t.Context(), deleted))
	subscriptions.Add(first)
	require.Equal(t, []string{"first", "second"}, names(next(t, applied)), "sorted, without the one that leads nowhere and the deleted")

	status := first.DeepCopy()
	status.Status.Ready = true
	subscriptions.Update(first, status)
	moved := second.DeepCopy()
	moved.Generation, moved.Spec.Sink = 2, sink+":8080"
	require.NoError(t, c.Update(t.Context(), moved))
	subscriptions.Update(second, moved)
	require.Equal(t, int32(8080), next(t, applied)[1].Port)

	require.NoError(t, c.Delete(t.Context(), moved))
	subscriptions.Delete(moved)
	require.Equal(t, []string{"first"}, names(next(t, applied)))
	require.Empty(t, applied)
}

func TestAnUpdateOfTheStatusReroutesNothing(t *testing.T) {
	t.Parallel()
	before := subscription("orders", "", 1)
	deleted := before.DeepCopy()
	deleted.DeletionTimestamp = new(metav1.Now())
	for name, tc := range map[string]struct {
		before, after any
		want          bool
	}{
		"added":         {after: before, want: true},
		"deleted":       {before: before, want: true},
		"status":        {before: before, after: before.DeepCopy()},
		"spec":          {before: before, after: subscription("orders", "", 2), want: true},
		"to be deleted": {before: before, after: deleted, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, mayReroute(tc.before, tc.after))
		})
	}
}

func TestEndpointsFollowTheServiceAndItsSlices(t *testing.T) {
	t.Parallel()
	c, informers := newFakeCache(t, &corev1.Service{}, &discoveryv1.EndpointSlice{}, &corev1.Pod{})
	services, slices, pods := informers[0], informers[1], informers[2]
	endpoints := NewEndpoints(c, logr.Discard())
	watch := func(name string) <-chan []routing.Endpoint {
		return collect(t, func(ctx context.Context, apply func([]routing.Endpoint)) error {
			return endpoints.Watch(ctx, types.NamespacedName{Namespace: "shop", Name: name}, 80, apply)
		})
	}
	applied, other := watch("price"), watch("invoice")
	require.Empty(t, next(t, applied))
	require.Empty(t, next(t, other))

	pods.Add(podAt("shop", "price-1", "10.0.0.1"))
	starting := slice(pod("10.0.0.1", new(false), new(false)))
	require.NoError(t, c.Create(t.Context(), &starting))
	slices.Add(&starting)
	require.NoError(t, c.Create(t.Context(), service()))
	services.Add(service())
	require.Equal(t, []routing.Endpoint{{Address: "10.0.0.1:8080", Function: true}}, next(t, applied))

	ready := starting.DeepCopy()
	ready.Endpoints[0].Conditions.Ready = new(true)
	require.NoError(t, c.Update(t.Context(), ready))
	slices.Update(&starting, ready)
	require.Equal(t, []routing.Endpoint{{Address: "10.0.0.1:8080", Ready: true, Function: true}}, next(t, applied))

	slices.Update(ready, ready.DeepCopy()) // no relevant change
	require.NoError(t, c.Delete(t.Context(), service()))
	services.Delete(service())
	require.Empty(t, next(t, applied))
	require.Empty(t, applied)
	require.Empty(t, other, "a watch must not receive changes of another Service")
}

func TestAWatchThatEndsIsForgotten(t *testing.T) {
	t.Parallel()
	c, _ := newFakeCache(t)
	endpoints := NewEndpoints(c, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	err := endpoints.Watch(ctx, types.NamespacedName{Namespace: "shop", Name: "price"}, 80, func([]routing.Endpoint) { cancel() })
	require.NoError(t, err)
	require.Empty(t, endpoints.watches.signals)
}

func TestSpecsAreThoseOfAllSubscriptions(t *testing.T) {
	t.Parallel()
	c, _ := newFakeCache(t, &eventingv1alpha2.Subscription{})
	informer := controllertest.NewFakeInformer()
	c.InformersByGVK[eventingv1alpha2.GroupVersion.WithKind("Subscription")] = informer
	invalid := subscription("invalid", "nowhere", 1)
	other := subscription("other", "", 1)
	other.Namespace, other.Spec.Source = "billing", "other"
	deleted := subscription("deleted", "", 1)
	deleted.Finalizers = []string{"eventing.kyma-project.io"}
	for _, sub := range []*eventingv1alpha2.Subscription{invalid, other, deleted} {
		require.NoError(t, c.Create(t.Context(), sub))
	}
	require.NoError(t, c.Delete(t.Context(), deleted))

	_, err := NewSubscriptions(c).Specs(t.Context())
	require.ErrorIs(t, err, errNotSynced, "half a list must not pass for all")

	informer.Synced()
	specs, err := NewSubscriptions(c).Specs(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, []eventingv1alpha2.SubscriptionSpec{invalid.Spec, other.Spec}, specs)
}
