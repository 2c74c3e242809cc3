package eventbridge

import (
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
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
