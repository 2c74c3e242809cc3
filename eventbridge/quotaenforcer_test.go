package eventbridge

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// keepsOrder is what a consumer or a route has that keeps an order.
func keepsOrder(r *routing.Route) { r.Delivery.OrderedBy = "key" }

// spamRoute is that of a Subscription which takes what flood publishes.
func spamRoute(name string) routing.Route {
	route := orders(sinkURL)
	route.Subscription = types.NamespacedName{Namespace: "hostile", Name: name}
	route.Consumer = routing.ConsumerName("hostile", name)
	route.Subjects = []string{"kyma.hostile.spam", routing.RedeliverySubject(route.Consumer)}
	return route
}

func TestQuotaIsEnforcedOnInvalidSubscriptions(t *testing.T) {
	t.Parallel()
	w := newFixture(t, loopback.Ready("127.0.0.1:1"))
	small := broker.DefaultStreamOptions()
	small.MaxBytes = 6 << 20
	require.NoError(t, w.conn.EnsureStreams(t.Context(), small))
	as := func(*routing.Route) {}
	hostile := map[string]struct {
		consumer func(*routing.Route) // as the controller made it while the spec was another
		route    func(*routing.Route) // as the bridge knows it; nil when there is none
	}{
		"no route: its sink, its types or its access are refused, or it is going": {as, nil},
		"no route, and a consumer that keeps an order":                            {keepsOrder, nil},
		"a filter that does not compile": {as, func(r *routing.Route) {
			r.Filter = &eventingv1alpha2.Filter{CEL: "1 +"}
		}},
		"a sink that cannot be served":                     {as, func(r *routing.Route) { r.Sink = "://" }},
		"an order that its consumer does not keep":         {as, keepsOrder},
		"no order, and a consumer that keeps one":          {keepsOrder, as},
		"a pause, no order, and a consumer that keeps one": {keepsOrder, func(r *routing.Route) { r.Paused = true }},
		"a bad filter, an order, a consumer that keeps none": {as, func(r *routing.Route) {
			keepsOrder(r)
			r.Filter = &eventingv1alpha2.Filter{CEL: "1 +"}
		}},
	}
	routes, names, i := []routing.Route{orders(sinkURL)}, map[string]types.NamespacedName{}, 0
	for title, tc := range hostile {
		i++
		base := spamRoute(fmt.Sprintf("s%d", i))
		names[title] = base.Subscription
		made := base
		tc.consumer(&made)
		ensureConsumer(t, w.conn, made, w.ackWait)
		if tc.route != nil {
			tc.route(&base)
			routes = append(routes, base)
		}
	}
	w.routes.set(routes...)
	r := w.start(t, func(d *Deps, _ *Options) { d.Quota = w.store })
	published := w.flood(t, r)
	for title, name := range names {
		w.quotaEnforced(t, name, published, title)
	}
}

// flood publishes more than the stream can hold, as fast as old events leave it, and returns how many events that were.
func (w *fixture) flood(t *testing.T, r *replica) uint64 {
	t.Helper()
	const size = 20_000
	spam := strings.Repeat("x", size)
	published := uint64(0)
	for ; published*size < 8<<20; published++ {
		require.Eventually(t, func() bool {
			use, err := w.store.Use(t.Context())
			return err == nil && use.Bytes < 5<<20
		}, timeout, tick, "the oldest events give way before the stream is full")
		status := r.post(t, "/publish", fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"hostile","type":"spam","data":%q}`, published, spam),
			structured)
		require.Equal(t, http.StatusNoContent, status)
	}
	return published
}

// quotaEnforced waits until there are dead letters, and all that was published is either kept or one of them.
func (w *fixture) quotaEnforced(t *testing.T, name types.NamespacedName, published uint64, title string) {
	t.Helper()
	require.Eventually(t, func() bool {
		deadLetters, err := w.conn.DeadLetters(t.Context(), name)
		require.NoError(t, err)
		backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, routing.ConsumerName(name.Namespace, name.Name))
		require.NoError(t, err)
		return deadLetters > 0 && deadLetters+backlog.Total() == published
	}, timeout, tick, "published = acked + dead-lettered + pending, with %s", title)
}

func TestQuotaIsEnforcedWhileCallsHangAfterASubscriptionChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(hostile routing.Route) []routing.Route{
		"it became invalid": func(routing.Route) []routing.Route { return nil },
		"it is paused": func(r routing.Route) []routing.Route {
			r.Paused = true
			return []routing.Route{r}
		},
		"its sink was changed": func(r routing.Route) []routing.Route {
			r.Sink += "/other"
			return []routing.Route{r}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called, over := make(chan struct{}, 1000), make(chan struct{})
			sink := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
				called <- struct{}{}
				select {
				case <-over:
				case <-r.Context().Done():
				}
			})
			w := newFixture(t, loopback.Ready(sink.Address()))
			small := broker.DefaultStreamOptions()
			small.MaxBytes = 6 << 20
			require.NoError(t, w.conn.EnsureStreams(t.Context(), small))
			hostile := spamRoute("hangs")
			ensureConsumer(t, w.conn, hostile, w.ackWait)
			w.routes.set(orders(sinkURL), hostile)
			r := w.start(t, func(d *Deps, o *Options) {
				d.Quota = w.store
				o.Sink.Timeout, o.Dispatch.DrainTimeout = 5*time.Minute, 5*time.Minute
			})
			t.Cleanup(func() { close(over) }) // before the bridge drains
			for i := range hostile.MaxInFlight {
				status := r.post(t, "/publish", fmt.Sprintf(`{"specversion":"1.0","id":"first-%d","source":"hostile","type":"spam"}`, i), structured)
				require.Equal(t, http.StatusNoContent, status)
				<-called
			}
			w.routes.set(append(change(hostile), orders(sinkURL))...)
			published := w.flood(t, r)
			w.quotaEnforced(t, hostile.Subscription, published+uint64(hostile.MaxInFlight), name)
		})
	}
}

func TestAQuotaEnforcerRunsOnlyForConsumersWithoutADispatcher(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	d := newDeliveries(Deps{Store: w.store, Quota: w.store, Registry: prometheus.NewRegistry(), Log: logr.Discard()}, DefaultOptions(), nil, &replicas{})
	ctx, cancel := context.WithCancel(t.Context())
	defer d.enforcers.wait()
	defer cancel()
	plain := quota.Held{Subscription: orders(sinkURL).Subscription}
	ordered := plain
	ordered.Ordered = true
	served, gone := []routing.Route{orders(sinkURL)}, []routing.Route{}
	for _, step := range []struct {
		title    string
		routes   []routing.Route
		over     []quota.Held
		enforced bool
	}{
		{"the routes are not known yet", nil, []quota.Held{plain}, false},
		{"it is served", served, []quota.Held{plain}, false},
		{"its route is gone", gone, []quota.Held{plain}, true},
		{"it keeps no more than it may", gone, nil, false},
		{"it does again", gone, []quota.Held{plain}, true},
		{"its route is back", served, []quota.Held{plain}, false},
		{"its consumer keeps an order", served, []quota.Held{ordered}, true},
		{"its consumer is changed", served, []quota.Held{plain}, false},
	} {
		if step.routes != nil {
			d.enforcers.setRoutes(step.routes)
		}
		require.Eventually(t, func() bool {
			d.enforcers.reconcile(ctx, step.over)
			return len(d.enforcers.working) == map[bool]int{true: 1}[step.enforced]
		}, timeout, tick, step.title)
	}
}

func TestAQuotaEnforcerThatDrainsIsReplacedWhenItIsWantedAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	d := newDeliveries(Deps{Store: w.store, Quota: w.store, Registry: prometheus.NewRegistry(), Log: logr.Discard()}, DefaultOptions(), nil, &replicas{})
	ctx, cancel := context.WithCancel(t.Context())
	defer d.enforcers.wait()
	defer cancel()
	d.enforcers.setRoutes(nil)
	held := quota.Held{Subscription: orders(sinkURL).Subscription}
	draining := &quotaEnforcer{limit: d.quotas.Limit(held.Subscription), stop: func() {}, done: make(chan struct{})}
	d.enforcers.working[held.Subscription] = draining
	d.enforcers.reconcile(ctx, nil)
	d.enforcers.reconcile(ctx, []quota.Held{held})
	require.Same(t, draining, d.enforcers.working[held.Subscription], "two of one consumer would work at a time")
	close(draining.done)
	d.enforcers.reconcile(ctx, []quota.Held{held})
	require.NotSame(t, draining, d.enforcers.working[held.Subscription])
	require.NotNil(t, d.enforcers.working[held.Subscription])
}
