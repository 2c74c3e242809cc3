package scaler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

// paused is the route as it is while nothing is delivered for it.
func paused(route routing.Route) routing.Route {
	route.Paused = true
	if route.DeadLetters != nil {
		deadLetters := paused(*route.DeadLetters)
		route.DeadLetters = &deadLetters
	}
	return route
}

func TestAPausedSubscriptionDoesNotWakeItsFunction(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		advance(time.Minute)
		r.broker.publish(orderPlaced)
		advance(10 * time.Minute)
		requireAnswer(t, r, 0, false)
		require.Empty(t, object.Transitions())
		received, _ := object.Pushed()
		require.Zero(t, received)
	}, paused(order))
}

func TestAPauseLetsAFunctionSleepAlthoughEventsWait(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		for range 40 {
			r.broker.publish(orderPlaced)
		}
		advance(30 * time.Second)
		require.Positive(t, object.Replicas())
		r.broker.set(order, broker.Backlog{Pending: 30, AckPending: 10})

		r.routes.post([]routing.Route{paused(order)})
		advance(time.Second)
		requireAnswer(t, r, 0, false)
		r.broker.publish(orderPlaced)
		advance(10 * time.Minute)
		require.Zero(t, object.Replicas())
		requireAnswer(t, r, 0, false)
	}, order)
}

func TestTheEndOfAPauseIsPushedIfSomethingWaits(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		advance(time.Minute)
		r.broker.publish(orderPlaced)
		advance(time.Minute)
		require.Zero(t, object.Replicas())

		r.routes.post([]routing.Route{order})
		advance(shortestPause)
		require.Equal(t, 1, object.Replicas())
		require.Equal(t, kedatest.Push, object.Transitions()[0].Reason)
	}, paused(order))
}

func TestTheEndOfAPauseWakesNothingIfNothingWaits(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		advance(time.Minute)
		r.routes.post([]routing.Route{order})
		advance(time.Minute)
		require.Zero(t, object.Replicas())
		r.broker.publish(orderPlaced)
		synctest.Wait()
		require.Equal(t, 1, object.Replicas(), "it listens again")
	}, paused(order))
}

func TestAPauseLeavesTheFunctionsOtherSubscriptionsAlone(t *testing.T) {
	t.Parallel()
	wide := routeTo(shop, "order", "orders", orderPlaced)
	wide.MaxInFlight = 50
	refunds := routeTo(shop, "order", "refunds", "kyma.webshop.refund.asked.v1")
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		advance(time.Minute)
		r.broker.publish(orderPlaced)
		synctest.Wait()
		require.Zero(t, object.Replicas())
		r.broker.publish("kyma.webshop.refund.asked.v1")
		synctest.Wait()
		require.Equal(t, 1, object.Replicas())
		advance(10 * time.Second)
		requireAnswer(t, r, 1, true)

		spec, err := r.client.GetMetricSpec(t.Context(), r.ref("order"))
		require.NoError(t, err)
		require.InDelta(t, 50, spec.GetMetricSpecs()[0].GetTargetSizeFloat(), 0, "a pause changes nothing about what a replica carries")
	}, paused(wide), refunds)
}

// The listener of before a pause may still be there when something is published.
func TestAPublishJustAfterAPauseWakesNothing(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		advance(time.Minute)
		f := r.scaler.tracker.function(target{function: order.Service})
		f.mu.Lock()
		before := f.listener
		f.mu.Unlock()
		require.NotNil(t, before)
		f.setRoutes([]routing.Route{paused(order)}) // its loop has not seen it yet
		f.published(before)
		advance(time.Minute)
		require.Empty(t, object.Transitions())
	}, order)
}

func TestAPauseHoldsForTheSinkOfDeadLettersToo(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	deadLetters := routeTo(shop, "dead-letters", "orders", routing.DeadLetterSubject(types.NamespacedName{Namespace: shop, Name: "orders"}))
	deadLetters.OfDeadLetters = true
	order.DeadLetters = &deadLetters
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.broker.create(order, deadLetters)
		r.routes.post([]routing.Route{paused(order)})
		r.start()
		object := r.keda("dead-letters", seldom)
		advance(time.Minute)
		r.broker.publish(deadLetters.Subjects[0])
		advance(time.Minute)
		require.Zero(t, object.Replicas())

		r.routes.post([]routing.Route{order})
		advance(shortestPause)
		require.Equal(t, 1, object.Replicas())
	})
}
