package scaler

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

func seldom(o *kedatest.Options) { o.PollingInterval = 300 * time.Second }

func TestPushBeatsPoll(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		advance(20 * time.Second)
		require.Zero(t, object.Replicas())

		published := time.Now()
		r.broker.publish(orderPlaced)
		synctest.Wait()

		require.Equal(t, 1, object.Replicas())
		require.Equal(t, kedatest.Push, object.Transitions()[0].Reason)
		require.Equal(t, published, object.Transitions()[0].At, "no timer lies between the publish and the wake")
	}, order)
}

func TestAnyOfAFunctionsSubscriptionsWakesIt(t *testing.T) {
	t.Parallel()
	orders := routeTo(shop, "order", "orders", orderPlaced)
	refunds := routeTo(shop, "order", "refunds", "kyma.webshop.refund.asked.v1")
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		r.broker.publish("kyma.webshop.refund.asked.v1")
		synctest.Wait()
		require.Equal(t, 1, object.Replicas())

		r.broker.set(orders, broker.Backlog{Pending: 3, AckPending: 2})
		advance(2 * time.Second)
		value, _, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		require.InDelta(t, 6, value, 0, "pending and ack pending of both")
	}, orders, refunds)
}

func TestTrueIsRepeatedUntilThereIsAnEndpointAndThenBeatsSlowly(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", func(o *kedatest.Options) {
			seldom(o)
			o.OnReplicas = func(int) {} // the pod does not start by itself
		})
		advance(time.Second)
		r.broker.publish(orderPlaced)
		advance(5500 * time.Millisecond)
		received, _ := object.Pushed()
		require.Equal(t, 4, received, "at 0 s, 1 s, 2 s and 4 s")

		r.awake(order.Service, true)
		advance(60 * time.Second)
		received, _ = object.Pushed()
		require.Equal(t, 4+5, received, "each 12 s")

		r.awake(order.Service, false)
		synctest.Wait()
		again, _ := object.Pushed()
		require.Equal(t, received+1, again, "at once when the endpoint is lost")

		advance(10 * time.Minute)
		total, _ := object.Pushed()
		require.Less(t, total-again, 60, "a function that cannot start is not repeated each second for ever")
	}, order)
}

func TestActivationIsLoggedOncePerWake(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		advance(time.Second)
		r.broker.publish(orderPlaced)
		advance(30 * time.Second)
		lines := r.logs.containing("activation sent")
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], `"function"="order" "namespace"="shop"`)
		require.Contains(t, lines[0], `"at"="2000-01-01T00:00:01Z" "cause"="publish"`)

		r.broker.set(order, broker.Backlog{})
		advance(2 * time.Minute)
		require.Zero(t, object.Replicas())
		r.broker.publish(orderPlaced)
		advance(10 * time.Second)
		require.Len(t, r.logs.containing("activation sent"), 2)
		require.Equal(t, 1, object.Replicas())
	}, order)
}

func TestABacklogThatNoPublishAnnouncedIsFoundByReading(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		advance(time.Minute)
		r.broker.set(order, broker.Backlog{Pending: 4})
		advance(10 * time.Second)
		require.Equal(t, 1, object.Replicas())
		require.Contains(t, r.logs.containing("activation sent")[0], `"cause"="poll"`)
	}, order)
}

func TestAMessageThatTheListenerMissedNarrowlyIsFoundSoon(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		requireAnswer(t, r, 0, false)
		advance(10 * time.Millisecond)
		r.broker.set(order, broker.Backlog{Pending: 1})
		advance(2 * time.Second)
		requireAnswer(t, r, 1, true)
	}, order)
}

func TestAPublishCountsBeforeItIsStored(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.storeLag = 500 * time.Millisecond
		advance(time.Second)
		requireAnswer(t, r, 0, false)
		advance(5 * time.Second)

		r.broker.publish(orderPlaced)
		synctest.Wait()
		requireAnswer(t, r, 1, true)
		advance(200 * time.Millisecond)
		requireAnswer(t, r, 1, true)
		advance(time.Hour)
		requireAnswer(t, r, 1, true)
	}, order)
}

func TestAPublishThatLeavesNothingBehindIsForgotten(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		requireAnswer(t, r, 0, false)
		advance(5 * time.Second)
		r.broker.remove(order)
		for range 3 {
			r.broker.publish(orderPlaced)
			synctest.Wait()
			requireAnswer(t, r, 1, true)
			advance(1900 * time.Millisecond)
			requireAnswer(t, r, 1, true)
			advance(300 * time.Millisecond)
			requireAnswer(t, r, 0, false)
			require.Equal(t, 1, r.broker.listening(), "it listens again")
		}
	}, order)
}

// A pod is being taken away while an event arrives, and is still listed as
// ready: KEDA takes the first true as one for a Function that runs.
func TestAnEventDuringTheFallToZeroWakesTheFunctionAgain(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		advance(time.Second)
		r.broker.publish(orderPlaced)
		advance(5 * time.Second)
		r.broker.set(order, broker.Backlog{})
		ctx := t.Context()
		require.NoError(t, object.Await(ctx, func(o *kedatest.ScaledObject) bool { return o.Replicas() == 0 }))

		fell := time.Now()
		r.broker.publish(orderPlaced) // the endpoint goes a second later
		advance(2500 * time.Millisecond)
		require.Equal(t, 1, object.Replicas())
		changes := object.Transitions()
		require.WithinDuration(t, fell, changes[len(changes)-1].At, 2*time.Second)
	}, order)
}

func TestSteadyTrafficForAFunctionThatIsAwakeCostsOnlyHeartbeats(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		for range 600 { // one event a second, handled in 10 ms
			r.broker.publish(orderPlaced)
			advance(10 * time.Millisecond)
			if object.Replicas() > 0 {
				r.broker.set(order, broker.Backlog{})
			}
			advance(990 * time.Millisecond)
		}
		received, _ := object.Pushed()
		require.Less(t, received, 600/12+10)
		require.Len(t, object.Transitions(), 1, "it never falls asleep")
		require.Len(t, r.logs.containing("activation sent"), 1)
		r.broker.change(func() {
			require.Less(t, r.broker.reads, 3*600, "a stream of publishes is not a stream of readings")
		})
	}, order)
}

// Events that come further apart than the cooldown, but less than a heartbeat
// after another one, must not lose their share of the cooldown.
func TestCooldownCountsFromTheLastEvent(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		handle := func() {
			r.broker.publish(orderPlaced)
			advance(10 * time.Millisecond)
			r.broker.set(order, broker.Backlog{})
		}
		r.broker.publish(orderPlaced)
		advance(5 * time.Second)
		r.broker.set(order, broker.Backlog{})
		advance(10 * time.Second)
		handle()
		advance(7 * time.Second)
		handle()
		last := time.Now()
		require.NoError(t, object.Await(t.Context(), func(o *kedatest.ScaledObject) bool { return o.Replicas() == 0 }))
		require.GreaterOrEqual(t, time.Since(last), time.Minute)
	}, order)
}

func TestAThresholdAboveOneIsNotReachedByOneEvent(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", func(o *kedatest.Options) {
			seldom(o)
			o.Metadata["activationLagThreshold"] = "5"
		})
		advance(3 * time.Second)
		for range 5 {
			r.broker.publish(orderPlaced)
			advance(100 * time.Millisecond)
		}
		require.Zero(t, object.Replicas())
		value, active, err := r.ask(r.ref("order", "activationLagThreshold", "5"))
		require.NoError(t, err)
		require.False(t, active)
		require.InDelta(t, 5, value, 0)

		r.broker.publish(orderPlaced)
		advance(100 * time.Millisecond)
		require.Equal(t, 1, object.Replicas(), "the sixth is pushed, not polled")
	}, order)
}

func TestABurstRaisesReplicasAndComesBackToZeroWithoutFlapping(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", func(o *kedatest.Options) { o.MaxReplicas = 3 })
		advance(time.Second)
		for range 1000 {
			r.broker.publish(orderPlaced)
		}
		for left := uint64(1000); left > 0; left -= 10 {
			r.broker.set(order, broker.Backlog{Pending: left - 10, AckPending: 10})
			advance(time.Second)
		}
		r.broker.set(order, broker.Backlog{})
		advance(3 * time.Minute)
		var to []int
		for _, change := range object.Transitions() {
			to = append(to, change.To)
		}
		require.Zero(t, object.Replicas())
		peak := slices.Index(to, 3)
		require.GreaterOrEqual(t, peak, 0)
		require.True(t, slices.IsSorted(to[:peak+1]), "%v", to)
		down := slices.Clone(to[peak:])
		slices.Reverse(down)
		require.True(t, slices.IsSorted(down), "%v", to)
	}, order)
}

func requireAnswer(t *testing.T, r *rig, wantValue float64, wantActive bool) {
	t.Helper()
	value, active, err := r.ask(r.ref("order"))
	require.NoError(t, err)
	require.InDelta(t, wantValue, value, 0)
	require.Equal(t, wantActive, active)
}

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
		f, err := r.scaler.tracker.function(request{target: target{function: order.Service}})
		require.NoError(t, err)
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

func TestScalerIsolatesNamespaces(t *testing.T) {
	t.Parallel()
	theirs := routeTo("bank", "order", "orders", orderPlaced)
	// A Subscription whose sink lies in another namespace counts for no Function.
	crossing := routeTo("bank", "order", "crossing", "kyma.bank.crossing.v1")
	crossing.Service = types.NamespacedName{Namespace: shop, Name: "order"}
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(theirs, broker.Backlog{Pending: 50})
		r.broker.set(crossing, broker.Backlog{Pending: 50})
		object := r.keda("order", nil)
		requireAnswer(t, r, 0, false)

		r.broker.publish(orderPlaced)
		r.broker.publish("kyma.bank.crossing.v1")
		advance(30 * time.Second)
		require.Zero(t, object.Replicas())

		for _, key := range []string{"namespace", "consumer", "stream", "subscription"} {
			_, err := r.client.IsActive(t.Context(), r.ref("order", key, theirs.Consumer))
			require.Equal(t, codes.InvalidArgument, status.Code(err), key)
		}
		_, err := r.client.IsActive(t.Context(), r.ref("bank/order"))
		require.Equal(t, codes.InvalidArgument, status.Code(err))

		own := r.ref("order")
		own.Namespace = "bank"
		value, active, err := r.ask(own)
		require.NoError(t, err)
		require.True(t, active)
		require.InDelta(t, 51, value, 0)
	}, theirs, crossing)
}

func TestSubscriptionsElsewhereWakeAFunctionIfTheOperatorAllowsThem(t *testing.T) {
	t.Parallel()
	crossing := routeTo("bank", "order", "crossing", "kyma.bank.crossing.v1")
	crossing.Service = types.NamespacedName{Namespace: shop, Name: "order"}
	foreign := routeTo("bank", "order", "foreign", "kyma.bank.foreign.v1")
	foreign.Service, foreign.External = types.NamespacedName{}, true
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.options.Sinks.AllowedSinkHosts = []string{"*.svc.cluster.local"}
		r.broker.create(crossing, foreign)
		r.routes.post([]routing.Route{crossing, foreign})
		r.start()
		r.broker.set(crossing, broker.Backlog{Pending: 50})
		requireAnswer(t, r, 50, true)
	})
}

func TestAnUnqueriedFunctionIsForgotten(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		requireAnswer(t, r, 0, false)
		object := r.keda("order", func(o *kedatest.Options) { o.PollingInterval = 24 * time.Hour })
		advance(2 * time.Hour)
		require.Equal(t, 1, r.broker.listening(), "a stream is interest enough")
		_ = object

		other := r.ref("order", "activationLagThreshold", "3")
		_, _, err := r.ask(other)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, r.broker.listening())
		advance(16 * time.Minute)
		require.Equal(t, 1, r.broker.listening())
		_, _, err = r.ask(other)
		require.NoError(t, err, "it is followed again when asked for")
	}, order)
}

func TestDeadLettersWakeTheirSinkFunction(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	deadLetters := routeTo(shop, "dead-letters", "orders", routing.DeadLetterSubject(types.NamespacedName{Namespace: shop, Name: "orders"}))
	deadLetters.OfDeadLetters = true
	order.DeadLetters = &deadLetters
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.broker.create(order, deadLetters)
		r.routes.post([]routing.Route{order})
		r.start()
		ask := func(function string) float64 {
			value, _, err := r.ask(r.ref(function))
			require.NoError(t, err)
			return value
		}
		require.Zero(t, ask("order"))
		require.Zero(t, ask("dead-letters"))
		synctest.Wait()

		r.broker.publish(orderPlaced)
		advance(time.Second)
		require.InDelta(t, 1, ask("order"), 0)
		require.Zero(t, ask("dead-letters"), "an event is no dead letter")

		r.broker.set(order, broker.Backlog{})
		r.broker.publish(deadLetters.Subjects[0])
		synctest.Wait()
		require.InDelta(t, 1, ask("dead-letters"), 0, "it wakes the Function")
		advance(time.Minute)
		require.InDelta(t, 1, ask("dead-letters"), 0, "and counted")
		require.Zero(t, ask("order"), "what it could not take is not its work any more")

		r.broker.set(deadLetters, broker.Backlog{AckPending: 1})
		advance(time.Minute)
		require.InDelta(t, 1, ask("dead-letters"), 0, "a dead letter that waits for another attempt keeps it awake")
		r.broker.set(deadLetters, broker.Backlog{})
		advance(time.Minute)
		require.Zero(t, ask("dead-letters"))
	})
}
