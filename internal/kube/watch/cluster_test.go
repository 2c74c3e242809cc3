package watch

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

var cluster = envtest.New()

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
	// The watches begin before the cache does, as in a process that starts everything at once.
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
