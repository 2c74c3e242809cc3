package eventbridge

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// hostileRoute returns the route of a Subscription in another namespace to events of type evil.v1.
func hostileRoute(name string) routing.Route {
	route := orders(sinkURL)
	route.Subscription = types.NamespacedName{Namespace: "evil", Name: name}
	route.Consumer = routing.ConsumerName("evil", name)
	route.Redelivery = routing.RedeliverySubject(route.Consumer)
	route.Subjects = []string{routing.Subject("shop", "evil.v1", false), route.Redelivery}
	route.MaxInFlight = eventingv1alpha2.LargestMaxInFlight
	return route
}

// Four Subscriptions of one namespace get 100 events of 60 KiB each, 23 MiB together, and their sink hangs.
func TestANamespaceTakesHalfOfTheDeliveryMemoryAtMost(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	var served atomic.Int32
	sink := loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Type") != "evil.v1" {
			served.Add(1)
			return
		}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	routes := []routing.Route{orders(sinkURL)}
	for _, name := range []string{"a", "b", "c", "d"} {
		routes = append(routes, hostileRoute(name))
		ensureConsumer(t, w.conn, hostileRoute(name), w.ackWait)
	}
	w.routes.set(routes...)
	body := []byte(strings.Repeat("x", 60<<10))
	for i := range 100 {
		require.NoError(t, w.store.Publish(t.Context(), &cloudevent.Event{
			ID: "evil-" + strconv.Itoa(i), Source: "shop", Type: "evil.v1", DataContentType: "text/plain", Data: body,
		}))
	}
	var taken func() float64
	bridge := w.start(t, func(deps *Deps, options *Options) {
		options.DeliveryBytes = size
		options.Dispatch.DrainTimeout = 0
		registry := deps.Registry
		taken = func() float64 {
			families, err := registry.Gather()
			require.NoError(t, err)
			for _, family := range families {
				if family.GetName() == "rouse_eventbridge_delivery_bytes" {
					return family.GetMetric()[0].GetGauge().GetValue() // of the events
				}
			}
			return 0
		}
	})
	require.Eventually(t, func() bool { return taken() > size/4 }, timeout, tick)
	bridge.publishMany(t, 0, 20)
	require.Eventually(t, func() bool { return served.Load() == 20 }, timeout, tick)
	require.LessOrEqual(t, taken(), float64(size*3/4+len(routes)*ownDeliveryBytes), "their half, half of what is left, and what each has of its own")
}

func TestASourceWithoutMessagesNeedsOnlyTheBytesOfItsSubscription(t *testing.T) {
	t.Parallel()
	require.Equal(t, broker.IdleMemory, ownDeliveryBytes)
}

var bridges = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-eventbridge"}

// replicated adds the bridges' own Service to those of the sinks.
type replicated struct{ sinks, bridges *loopback.Endpoints }

// Watch implements sink.Endpoints.
func (r replicated) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	if service == bridges {
		return r.bridges.Watch(ctx, service, port, apply)
	}
	return r.sinks.Watch(ctx, service, port, apply)
}

// busySink answers when it is released, and counts the calls that wait for that.
type busySink struct {
	*loopback.Sink

	release    chan struct{}
	mu         sync.Mutex
	busy, most int
}

func newBusySink(t *testing.T) *busySink {
	t.Helper()
	s := &busySink{release: make(chan struct{})}
	s.Sink = loopback.StartSink(t, func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		s.busy++
		s.most = max(s.most, s.busy)
		s.mu.Unlock()
		<-s.release
		s.mu.Lock()
		s.busy--
		s.mu.Unlock()
	})
	return s
}

func (s *busySink) calls() (busy, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy, s.most
}

// startReplica runs a bridge with its own sink, in the Service of all bridges.
func (w *fixture) startReplica(t *testing.T, address string, others *loopback.Endpoints) *replica {
	t.Helper()
	return w.start(t, func(deps *Deps, options *Options) {
		deps.Endpoints = replicated{loopback.NewEndpoints(loopback.Ready(address)), others}
		options.Service = bridges
	})
}

// newAheadFixture has the consumer that the controller makes, which lets events be held ahead.
func newAheadFixture(t *testing.T) (w *fixture, route routing.Route) {
	t.Helper()
	w, route = newFixture(t), orders(sinkURL)
	ensureConsumerOf(t, w.conn, route, w.ackWait, route.MaxInFlight+route.Ahead())
	return w, route
}

func TestReplicasDivideTheLimitOfDeliveriesAndEachHoldsOneEventAheadOfASlowSink(t *testing.T) {
	t.Parallel()
	w, route := newAheadFixture(t)
	sink := newBusySink(t)
	others := loopback.NewEndpoints(loopback.Ready("10.0.0.1:80"), routing.Endpoint{Address: "10.0.0.2:80", Terminating: true})
	w.startReplica(t, sink.Address(), others)
	w.startReplica(t, sink.Address(), others).publishMany(t, 0, 100)
	require.Eventually(t, func() bool {
		backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, route.Consumer)
		busy, _ := sink.calls()
		return err == nil && busy == route.MaxInFlight && int(backlog.AckPending) == route.MaxInFlight+2
	}, timeout, tick)
	close(sink.release)
	w.backlogIs(t, 0, 0)
	_, most := sink.calls()
	require.Equal(t, route.MaxInFlight, most)
}

func TestAReplicaThatIsAloneHasTheWholeLimit(t *testing.T) {
	t.Parallel()
	w, route := newAheadFixture(t)
	sink := newBusySink(t)
	others := loopback.NewEndpoints(loopback.Ready("10.0.0.1:80"), loopback.Ready("10.0.0.2:80"))
	w.startReplica(t, sink.Address(), others).publishMany(t, 0, 100)
	require.Eventually(t, func() bool {
		busy, _ := sink.calls()
		return busy == route.MaxInFlight/2
	}, timeout, tick)
	others.Set(loopback.Ready("10.0.0.1:80"))
	sink.release <- struct{}{} // a completed event makes room for the next
	require.Eventually(t, func() bool {
		busy, _ := sink.calls()
		return busy == route.MaxInFlight
	}, timeout, tick)
	close(sink.release)
	w.backlogIs(t, 0, 0)
}

func TestAReplicaWhoseCallsTakeLongKeepsFewEventsFromTheOthers(t *testing.T) {
	t.Parallel()
	w, route := newAheadFixture(t)
	slow, quick := newBusySink(t), loopback.StartSink(t, nil)
	others := loopback.NewEndpoints(loopback.Ready("10.0.0.1:80"), loopback.Ready("10.0.0.2:80"))
	w.startReplica(t, slow.Address(), others)
	w.startReplica(t, quick.Address(), others).publishMany(t, 0, 100)
	deliveries, _ := route.Share(2)
	require.Eventually(t, func() bool { return len(quick.Requests()) >= 100-deliveries-1 }, timeout, tick, "it settles none, so it holds one ahead")
	close(slow.release)
	w.backlogIs(t, 0, 0)
}

func TestANamespaceOverItsQuotaLosesItsOldestEventsOnly(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	small := broker.DefaultStreamOptions()
	small.MaxBytes = 6 << 20
	require.NoError(t, w.conn.EnsureStreams(t.Context(), small))
	dead := orders(sinkURL)
	dead.Subscription = types.NamespacedName{Namespace: "hostile", Name: "dead"}
	dead.Consumer = routing.ConsumerName("hostile", "dead")
	dead.Subjects = []string{"kyma.hostile.spam", routing.RedeliverySubject(dead.Consumer)}
	dead.Paused = true
	ensureConsumer(t, w.conn, dead, w.ackWait)
	w.routes.set(orders(sinkURL), dead)
	r := w.start(t, func(d *Deps, _ *Options) { d.Storage, d.Quota = w.store, w.store })

	const size = 20_000
	spam := strings.Repeat("x", size)
	pace := time.NewTicker(20 * time.Millisecond) // of a flood that fills the stream in some seconds
	defer pace.Stop()
	published := 0
	for ; published*size < 8<<20; published++ {
		status := r.post(t, "/publish", fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"hostile","type":"spam","data":%q}`, published, spam),
			structured)
		require.Equal(t, http.StatusNoContent, status, "its oldest events give way before the stream is full")
		if published%10 == 0 {
			r.publishMany(t, published/10, 1)
		}
		<-pace.C
	}
	w.backlogIs(t, 0, 0)
	require.Equal(t, once((published+9)/10), countRequests(sink), "a consumer without a backlog loses nothing")
	require.Zero(t, w.deadLetters(t))

	deadLetters, err := w.conn.DeadLetters(t.Context(), dead.Subscription)
	require.NoError(t, err)
	require.Positive(t, deadLetters)
	require.Eventually(t, func() bool {
		deadLetters, err := w.conn.DeadLetters(t.Context(), dead.Subscription)
		require.NoError(t, err)
		backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, dead.Consumer)
		require.NoError(t, err)
		return deadLetters+backlog.Total() == uint64(published)
	}, timeout, tick, "published = acked + dead-lettered + pending")
	page, err := w.conn.ListDeadLetters(t.Context(), broker.DeadLetterQuery{Limit: 1000})
	require.NoError(t, err)
	given := map[string]failure.Reason{}
	for _, deadLetter := range page.DeadLetters {
		given[deadLetter.ID] = deadLetter.Reason
	}
	require.Equal(t, failure.QuotaExceeded, given["0"], "the oldest go")
	require.NotContains(t, given, strconv.Itoa(published-1), "the latest stay")
}

func TestHeldBytesOfAConsumerAreMeasured(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t)
	r.publishMany(t, 0, 300)
	for i, data := range []int{60_000, 1, 30_000} {
		status := r.post(t, "/publish", fmt.Sprintf(`{"specversion":"1.0","id":"l%d","source":"shop","type":"order.received.v1","data":%q}`, i,
			strings.Repeat("x", data)), structured)
		require.Equal(t, http.StatusNoContent, status)
	}
	use, err := w.store.Use(t.Context())
	require.NoError(t, err)
	held, err := w.store.Bytes(t.Context(), orders(sinkURL).Subscription, use.Bytes+1)
	require.NoError(t, err)
	require.Equal(t, use.Bytes, held)
	waiting, err := w.store.Waiting(t.Context())
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.EqualValues(t, 303, waiting[0].Events)
}

var structured = map[string]string{"Content-Type": "application/cloudevents+json"}

// countRequests returns how often each event was sent.
func countRequests(sink *loopback.Sink) map[string]int {
	counts := map[string]int{}
	for _, request := range sink.Requests() {
		counts[request.ID()]++
	}
	return counts
}

// keepsOrder is whether a consumer or a route is ordered.
func keepsOrder(r *routing.Route) { r.Delivery.OrderedBy = "key" }

// spamRoute returns the route of a Subscription that matches what flood publishes.
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
		route    func(*routing.Route) // nil without a route
	}{
		"no route: its sink, its types or its access are refused, or it is going": {as, nil},
		"no route, and an ordered consumer":                                       {keepsOrder, nil},
		"a filter that does not compile": {as, func(r *routing.Route) {
			r.Filter = &eventingv1alpha2.Filter{CEL: "1 +"}
		}},
		"a sink that cannot be served":               {as, func(r *routing.Route) { r.Sink = "://" }},
		"an order that its consumer does not keep":   {as, keepsOrder},
		"no order, and an ordered consumer":          {keepsOrder, as},
		"a pause, no order, and an ordered consumer": {keepsOrder, func(r *routing.Route) { r.Paused = true }},
		"a bad filter, an order, an unordered consumer": {as, func(r *routing.Route) {
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
	d := newDispatchers(Deps{Store: w.store, Quota: w.store, Registry: prometheus.NewRegistry(), Log: logr.Discard()}, DefaultOptions(), nil, &replicas{})
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
		{"it is within its share", gone, nil, false},
		{"it does again", gone, []quota.Held{plain}, true},
		{"its route is back", served, []quota.Held{plain}, false},
		{"its consumer is ordered", served, []quota.Held{ordered}, true},
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
	d := newDispatchers(Deps{Store: w.store, Quota: w.store, Registry: prometheus.NewRegistry(), Log: logr.Discard()}, DefaultOptions(), nil, &replicas{})
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
