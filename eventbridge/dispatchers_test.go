package eventbridge

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// The ten events that come first fail for ever. Kyma's dispatcher, whose limit they use up, lets 190 of 200 wait for
// minutes. Nothing bounds the time here but the test's timeout: e2e/bench measures.
func TestTenEventsThatAlwaysFailHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	arrived := map[string]bool{}
	sink := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		number, _ := strconv.Atoi(r.Header.Get("Ce-Id"))
		if number < 10 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		arrived[r.Header.Get("Ce-Id")] = true
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	bridge := w.start(t, func(_ *Deps, options *Options) {
		options.Dispatch.MaxAttempts = 1000
		options.Dispatch.Backoff.Base, options.Dispatch.Backoff.Max = time.Hour, time.Hour
	})
	bridge.publishMany(t, 0, 200)
	begun := time.Now()
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(arrived) == 190
	}, timeout, tick)
	t.Logf("190 of 200 events arrived within %s after the last was published", time.Since(begun).Round(time.Millisecond))
	require.Eventually(t, func() bool {
		waiting, err := w.conn.WaitingRetries(t.Context())
		return err == nil && waiting[orders(sinkURL).Subscription] == 10
	}, timeout, tick)
	w.backlogIs(t, 0, 0)
}

func TestTheLimitOfDeliveriesHoldsOverAllBridges(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var mu sync.Mutex
	busy, peak := 0, 0
	sink := loopback.StartSink(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		busy++
		peak = max(peak, busy)
		mu.Unlock()
		<-release
		mu.Lock()
		busy--
		mu.Unlock()
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	first, _, _ := w.start(t), w.start(t), w.start(t)
	first.publishMany(t, 0, 40)
	limit := orders(sinkURL).MaxInFlight
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return busy == limit
	}, timeout, tick)
	w.backlogIs(t, uint64(40-limit), uint64(limit))
	close(release)
	w.backlogIs(t, 0, 0)
	require.Equal(t, limit, peak)
}

func TestSubscriptionDeliveryOptionsAreApplied(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Filter = &eventingv1alpha2.Filter{CEL: `data.order != "1"`, Exact: map[string]string{"source": "shop"}}
	route.Delivery = routing.Delivery{MaxAttempts: 2, Backoff: routing.Backoff{Policy: eventingv1alpha2.BackoffConstant, Delay: time.Millisecond}}
	w.routes.set(route)
	w.start(t).publishMany(t, 0, 3)
	require.Eventually(t, func() bool { return w.deadLetters(t) == 2 }, timeout, tick)
	w.backlogIs(t, 0, 0)
	attempts := map[string]int{}
	for _, request := range sink.Requests() {
		attempts[request.Header.Get("Ce-Id")]++
	}
	require.Equal(t, map[string]int{"0": 2, "2": 2}, attempts)
}

func TestAFilterWithoutAConditionDeliversNothing(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Filter = &eventingv1alpha2.Filter{}
	w.routes.set(route)
	w.start(t).publishMany(t, 0, 3)
	w.backlogIs(t, 3, 0)
	require.Empty(t, sink.Requests())
	route.Filter = &eventingv1alpha2.Filter{Exact: map[string]string{"id": "1"}}
	w.routes.set(route)
	w.backlogIs(t, 0, 0)
	require.Len(t, sink.Requests(), 1, "what waited is judged by the filter as it was corrected")
}

func TestAReplyWakesTheNextInTheChain(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Rousehops") != "" {
			return // the end of the chain
		}
		for name, value := range map[string]string{
			"Ce-Specversion": "1.0", "Ce-Id": "next-" + r.Header.Get("Ce-Id"), "Ce-Source": "shop", "Ce-Type": "order.received.v1",
		} {
			w.Header().Set(name, value)
		}
	})
	w := newFixture(t, loopback.Ready(sink.Address()))
	w.start(t).publishMany(t, 0, 1)
	require.Eventually(t, func() bool { return len(sink.Requests()) == 2 }, timeout, tick)
	reply := sink.Requests()[1].Header
	require.Equal(t, []string{"next-0", "0", "1"}, []string{reply.Get("Ce-Id"), reply.Get("Ce-Rousecause"), reply.Get("Ce-Rousehops")})
	w.backlogIs(t, 0, 0)
}

// hanging is a sink that answers requests to /in when it is released, and others at once.
func hanging(t *testing.T) (sink *loopback.Sink, called chan string, release func()) {
	t.Helper()
	called, answer := make(chan string, 100), make(chan struct{})
	sink = loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		called <- r.URL.Path + " " + r.Header.Get("Ce-Id")
		if r.URL.Path != "/in" {
			return
		}
		select {
		case <-answer:
		case <-r.Context().Done(): // cut
			called <- "cut"
		}
	})
	return sink, called, func() { close(answer) }
}

func TestEventsGoToTheNewSinkRightAfterItsChange(t *testing.T) {
	t.Parallel()
	const running = 9 // of ten that may be
	sink, called, release := hanging(t)
	w := newFixture(t, loopback.Ready(sink.Address()))
	routes := make(steps)
	bridge := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.DrainTimeout = time.Millisecond
	})
	routes.apply(orders(sinkURL))
	bridge.publishMany(t, 0, running)
	for range running {
		require.Contains(t, <-called, "/in ")
	}
	moved := orders(strings.Replace(sinkURL, "/in", "/moved", 1))
	routes.apply(moved)
	for i := range 20 {
		bridge.publishMany(t, 1000+i, 1)
		require.Equal(t, "/moved "+strconv.Itoa(1000+i), <-called, "while the calls before hang")
	}
	release()
	w.backlogIs(t, 0, 0)
	require.Empty(t, called, "no call was cut, and no event sent twice")
	for id, times := range sink.Deliveries() {
		require.Equal(t, 1, times, id)
	}
}

func TestCallsThatOutlastTheirSubscriptionAreCutWhenTheDrainIsOver(t *testing.T) {
	t.Parallel()
	sink, called, release := hanging(t)
	defer release()
	w := newFixture(t, loopback.Ready(sink.Address()))
	routes := make(steps)
	bridge := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.DrainTimeout = time.Millisecond
	})
	routes.apply(orders(sinkURL))
	bridge.publishMany(t, 0, 1)
	require.Equal(t, "/in 0", <-called)
	routes.apply(orders(strings.Replace(sinkURL, "/in", "/moved", 1)))
	bridge.publishMany(t, 1, 1)
	require.Equal(t, "/moved 1", <-called)
	routes <- nil
	require.Equal(t, "cut", <-called)
	require.Eventually(t, func() bool {
		_, metrics := get(t, bridge.metricsURL)
		return !strings.Contains(metrics, `rouse_eventbridge_deliveries_in_flight{namespace="shop"`)
	}, timeout, tick, "its series are gone")
}

// stuck is a sink at which the first calls of events below number hang until they are released.
type stuck struct {
	*loopback.Sink

	release func()
	ended   atomic.Int32 // of those that hang

	mu    sync.Mutex
	calls map[string]int
}

func newStuck(t *testing.T, number int) *stuck {
	t.Helper()
	answer := make(chan struct{})
	s := &stuck{release: sync.OnceFunc(func() { close(answer) }), calls: map[string]int{}}
	s.Sink = loopback.StartSink(t, func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Ce-Id")
		if n, _ := strconv.Atoi(id); s.count(id) > 1 || n >= number {
			return
		}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		s.ended.Add(1)
	})
	t.Cleanup(s.release)
	return s
}

func (s *stuck) count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[id]++
	return s.calls[id]
}

func (s *stuck) arrived() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// detachedAre waits for so many detached calls, and no retries.
func (w *fixture) detachedAre(t *testing.T, calls int) {
	t.Helper()
	require.Eventually(t, func() bool {
		detached, err := w.conn.DetachedCalls(t.Context())
		retries, otherErr := w.conn.WaitingRetries(t.Context())
		return err == nil && otherErr == nil && len(retries) == 0 && detached[orders(sinkURL).Subscription] == uint64(calls)
	}, timeout, tick)
}

// The ten events that come first hang, as many as may be in flight. Without more slots the others would wait for the
// timeout of the first.
func TestHangingCallsBlockOthersForAQuarterOfTheirTimeout(t *testing.T) {
	t.Parallel()
	sink := newStuck(t, 10)
	w := newFixture(t, loopback.Ready(sink.Address()))
	bridge := w.start(t, func(_ *Deps, options *Options) { options.Sink.Timeout = 20 * time.Second })
	bridge.publishMany(t, 0, 200)
	begun := time.Now()
	require.Eventually(t, func() bool { return sink.arrived() == 200 }, timeout, tick)
	require.Zero(t, sink.ended.Load(), "the others had to wait for the end of a call that hung")
	t.Logf("190 of 200 events arrived within %s after the last was published", time.Since(begun).Round(time.Millisecond))
	w.backlogIs(t, 0, 0)
	w.detachedAre(t, 10)
	_, metrics := get(t, bridge.metricsURL)
	require.Contains(t, metrics, `rouse_eventbridge_detached_calls{namespace="shop",subscription="orders"} 10`)

	sink.release()
	w.detachedAre(t, 0)
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(200), sink.Deliveries())
	require.Eventually(t, func() bool {
		_, metrics = get(t, bridge.metricsURL)
		return strings.Contains(metrics, `rouse_eventbridge_detached_calls{namespace="shop",subscription="orders"} 0`)
	}, timeout, tick)
	require.Contains(t, metrics, `rouse_eventbridge_calls_detached_total{namespace="shop",subscription="orders"} 10`)
}

func TestADetachedCallThatTimesOutIsTriedAgain(t *testing.T) {
	t.Parallel()
	sink := newStuck(t, 2)
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Delivery.Timeout = 6 * time.Second // its own
	route.Delivery.MaxAttempts = 2
	w.routes.set(route)
	w.start(t).publishMany(t, 0, 2)
	w.detachedAre(t, 2)
	require.Eventually(t, func() bool { return sink.Deliveries()["0"] == 2 && sink.Deliveries()["1"] == 2 }, timeout, tick)
	w.detachedAre(t, 0)
	w.backlogIs(t, 0, 0)
	require.Zero(t, w.deadLetters(t))
}

func TestAnEventWhoseCallWasDetachedOutlastsItsBridge(t *testing.T) {
	t.Parallel()
	sink := newStuck(t, 1)
	w := newFixture(t, loopback.Ready(sink.Address()))
	natsLink := newLink(t, w.nats.URL())
	killed := w.start(t, func(deps *Deps, options *Options) {
		deps.Store = newStore(connect(t, natsLink.url()))
		options.Sink.Timeout = 6 * time.Second
		options.Dispatch.DrainTimeout = time.Millisecond
	})
	killed.publishMany(t, 0, 1)
	w.detachedAre(t, 1)
	natsLink.set(true)
	w.start(t)
	require.Eventually(t, func() bool { return sink.Deliveries()["0"] == 2 }, timeout, tick)
	w.detachedAre(t, 0)
	w.backlogIs(t, 0, 0)
}

func TestAPausedSubscriptionKeepsItsEvents(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Paused = true
	w.routes.set(route)
	bridge := w.start(t)
	bridge.publishMany(t, 0, 5)
	w.backlogIs(t, 5, 0)
	require.Empty(t, sink.Requests())
	route.Paused = false
	w.routes.set(route)
	w.backlogIs(t, 0, 0)
	require.Len(t, sink.Requests(), 5)
}

// steps are Routes that take the next set once the one before is applied.
type steps chan []routing.Route

func (s steps) Watch(ctx context.Context, apply func([]routing.Route)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case routes := <-s:
			apply(routes)
		}
	}
}

// apply returns when the bridge has applied the route.
func (s steps) apply(route routing.Route) {
	s <- []routing.Route{route}
	s <- []routing.Route{route}
}

// pausing is a fixture whose Subscription is paused while the sink handles its only event.
func pausing(t *testing.T, status int) (w *fixture, sink *loopback.Sink, routes steps, release func()) {
	t.Helper()
	called, answer := make(chan struct{}, 10), make(chan struct{})
	sink = loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) {
		called <- struct{}{}
		<-answer
		w.WriteHeader(status)
	})
	w, routes = newFixture(t, loopback.Ready(sink.Address())), make(steps)
	bridge := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.MaxAttempts = 2
	})
	route := orders(sinkURL)
	routes.apply(route)
	bridge.publishMany(t, 0, 1)
	<-called
	route.Paused = true
	routes.apply(route)
	return w, sink, routes, func() { close(answer) }
}

func TestACallThatRunsWhenItsSubscriptionIsPausedIsFinished(t *testing.T) {
	t.Parallel()
	w, sink, _, release := pausing(t, http.StatusOK)
	w.backlogIs(t, 0, 1)
	release()
	w.backlogIs(t, 0, 0)
	require.Equal(t, once(1), sink.Deliveries())
}

func TestARetryThatComesDueDuringAPauseWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	w, sink, routes, release := pausing(t, http.StatusInternalServerError)
	release()
	w.backlogIs(t, 1, 0)
	require.Equal(t, once(1), sink.Deliveries())
	routes.apply(orders(sinkURL))
	w.backlogIs(t, 0, 0)
	require.Equal(t, 1, w.deadLetters(t), "the attempt before the pause does not count")
	require.Equal(t, map[string]int{"0": 2}, sink.Deliveries())
}

func TestEventsOfAPausedSubscriptionExpireAndCanBeRedriven(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Paused = true
	route.Delivery.TTL = 500 * time.Millisecond
	w.routes.set(route)
	bridge := w.start(t)
	bridge.publishMany(t, 0, 20)
	require.Eventually(t, func() bool { return w.deadLetters(t) == 20 }, timeout, tick)
	w.backlogIs(t, 0, 0)
	page, err := w.conn.ListDeadLetters(t.Context(), broker.DeadLetterQuery{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, failure.Expired, page.DeadLetters[0].Reason)
	require.Zero(t, page.DeadLetters[0].Attempts)

	route.Paused = false
	route.Delivery.TTL = time.Hour
	w.routes.set(route)
	redriven, err := w.conn.Redrive(t.Context(), broker.DefaultStream, broker.DeadLetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 20, redriven.Redriven)
	w.backlogIs(t, 0, 0)
	require.Len(t, sink.Requests(), 20)
}

func TestARedriveBeginsTheTimeOfAnEventAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	route := orders(sinkURL)
	route.Delivery.TTL = 2 * time.Second
	w.routes.set(route)
	bridge := w.start(t)
	bridge.publishMany(t, 0, 1)
	require.Eventually(t, func() bool { return w.deadLetters(t) == 1 }, timeout, tick)
	began := time.Now()
	redriven, err := w.conn.Redrive(t.Context(), broker.DefaultStream, broker.DeadLetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 1, redriven.Redriven)
	require.Eventually(t, func() bool { return w.deadLetters(t) == 1 }, timeout, tick)
	require.GreaterOrEqual(t, time.Since(began), route.Delivery.TTL)
}

func TestSetRetriesChangesSubscriptionsWithoutOwnRetries(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	d := &dispatchers{options: options}
	none, own := d.retriesOf(routing.Delivery{}), d.retriesOf(routing.Delivery{MaxAttempts: 3, Backoff: routing.Backoff{Delay: time.Minute}})
	attempts, backoff := none()
	require.Equal(t, options.Dispatch.MaxAttempts, attempts)
	require.Equal(t, options.Dispatch.Backoff, backoff)

	d.retries.Store(&Retries{MaxAttempts: 5, Backoff: time.Second, MaxBackoff: 2 * time.Second})
	attempts, backoff = none()
	require.Equal(t, 5, attempts)
	require.Equal(t, dispatch.Backoff{Base: time.Second, Max: 2 * time.Second, Jitter: options.Dispatch.Backoff.Jitter}, backoff)
	attempts, backoff = own()
	require.Equal(t, 3, attempts)
	require.Equal(t, time.Minute, backoff.Base)

	d.retries.Store(&Retries{Backoff: time.Hour})
	_, backoff = none()
	require.Equal(t, time.Hour, backoff.Max, "no wait is longer than the longest")
	d.retries.Store(&Retries{})
	attempts, _ = none()
	require.Equal(t, options.Dispatch.MaxAttempts, attempts)
}

func TestChangedRetriesHoldForDeliveriesThatAreUnderWay(t *testing.T) {
	t.Parallel()
	failing := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	w := newFixture(t, loopback.Ready(failing.Address()))
	routes := make(steps)
	r := w.start(t, func(deps *Deps, options *Options) {
		deps.Routes = routes
		options.Dispatch.MaxAttempts = 1000
		options.Dispatch.Backoff = dispatch.Backoff{Base: 10 * time.Millisecond, Max: 10 * time.Millisecond}
	})
	routes.apply(orders(sinkURL))
	r.publishMany(t, 0, 1)
	failing.Await(t, 3)
	r.bridge.SetRetries(Retries{MaxAttempts: 1})
	require.Eventually(t, func() bool { return w.deadLetters(t) == 1 }, timeout, tick, "the next attempt is the last")
}
