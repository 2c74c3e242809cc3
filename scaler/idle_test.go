package scaler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

func TestCallsThatPodsRunKeepTheFunctionAwake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.listings.post(true)
		object := r.keda("order", wokenByHTTP)
		r.gateways.take(orderFunction, true)
		advance(2 * time.Second)
		r.gateways.finish(orderFunction)
		r.pods.run(3) // on connections that lead to the pod
		advance(10 * time.Minute)
		require.Equal(t, 1, object.Replicas())
		calls, err := r.calls()
		require.NoError(t, err)
		require.InDelta(t, 3, calls, 0)

		r.pods.run(0)
		ended := time.Now()
		require.NoError(t, object.Await(t.Context(), func(o *kedatest.ScaledObject) bool { return o.Replicas() == 0 }))
		require.Greater(t, time.Since(ended), time.Minute, "the cooldown")
		require.Less(t, time.Since(ended), 2*time.Minute)
	})
}

func TestShortCallsBetweenPollsKeepTheFunctionAwake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.listings.post(true)
		object := r.keda("order", func(o *kedatest.Options) { wokenByHTTP(o); o.PollingInterval = 30 * time.Second })
		r.gateways.take(orderFunction, false)
		advance(2 * time.Second)
		for range 60 {
			r.pods.run(1)
			r.pods.run(0)
			advance(25 * time.Second)
		}
		require.Len(t, object.Transitions(), 1, "it never falls asleep")
		received, _ := object.Pushed()
		require.Less(t, received, 60*3, "and costs heartbeats")
	})
}

func TestAFunctionWithPodsSleepsOnlyWhenItsGatewaysAreListed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.awake(orderFunction, true)
		r.requireActive(true, "not listed")
		advance(10 * time.Minute)
		r.requireActive(true, "still not")

		r.listings.post(true)
		advance(14 * time.Second)
		r.requireActive(true, "not for the grace")
		advance(time.Second)
		r.requireActive(false, "for the grace")

		r.listings.post(false)
		synctest.Wait()
		r.requireActive(true, "not listed any more")
		r.listings.post(true)
		advance(15 * time.Second)
		r.requireActive(false, "listed again")

		r.gateways.take(orderFunction, false)
		advance(14 * time.Second)
		r.requireActive(true, "it was called within the grace")
		advance(time.Second)
		r.requireActive(false, "")

		r.listings.post(false)
		r.awake(orderFunction, false)
		synctest.Wait()
		r.requireActive(false, "without pods")
	})
}

func TestIdlenessIsAnnouncedWhileAFunctionHasPods(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		during := func(d time.Duration) int {
			before := len(r.idleness.of(orderFunction))
			advance(d)
			return len(r.idleness.of(orderFunction)) - before
		}
		r.keda("order", func(o *kedatest.Options) { wokenByHTTP(o); o.OnReplicas = nil })
		require.Zero(t, during(time.Minute), "it has no pods")

		r.awake(orderFunction, true)
		require.GreaterOrEqual(t, during(time.Minute), 15, "each 3 s, as 5 of them keep gateways listed")
		require.LessOrEqual(t, during(time.Minute), 20)

		r.pods.run(1)
		advance(4 * time.Second)
		require.Zero(t, during(time.Minute), "a call runs")
		r.pods.run(0)
		advance(10 * time.Second)
		require.NotZero(t, during(time.Minute))

		r.gateways.take(orderFunction, true)
		require.Zero(t, during(time.Minute), "a request waits")
		r.gateways.finish(orderFunction)
		advance(10 * time.Second)

		r.pods.change(func(p *fakePods) { p.err = errDown })
		require.Zero(t, during(time.Minute), "its calls are not known")
	})
}

func TestAFunctionWithABacklogIsNotAnnouncedAsIdle(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.set(order, broker.Backlog{Pending: 1})
		r.awake(orderFunction, true)
		r.keda("order", func(o *kedatest.Options) { wokenByHTTP(o); o.OnReplicas = nil })
		advance(time.Minute)
		require.Empty(r.t, r.idleness.of(orderFunction))
	}, order)
}
