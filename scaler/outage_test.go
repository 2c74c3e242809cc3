package scaler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

func TestAHangingConsumerBlocksNoOtherFunction(t *testing.T) {
	t.Parallel()
	stuck := routeTo(shop, "stuck", "stuck", "kyma.webshop.stuck.v1")
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.change(func() { r.broker.hang[stuck.Consumer] = true })
		stuckObject := r.keda("stuck", nil)
		object := r.keda("order", seldom)
		advance(20 * time.Second)

		began := time.Now()
		_, _, err := r.ask(r.ref("stuck"))
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Less(t, time.Since(began), 100*time.Millisecond)

		r.broker.publish(orderPlaced)
		synctest.Wait()
		require.Equal(t, 1, object.Replicas())

		r.broker.publish("kyma.webshop.stuck.v1")
		synctest.Wait()
		require.Equal(t, 1, stuckObject.Replicas(), "a publish needs no reading")
	}, stuck, order)
}

func TestTheFirstQuestionWaitsBoundedAndThenIsAnError(t *testing.T) {
	t.Parallel()
	stuck := routeTo(shop, "stuck", "stuck", "kyma.webshop.stuck.v1")
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.change(func() { r.broker.hang[stuck.Consumer] = true })
		began := time.Now()
		_, err := r.client.IsActive(t.Context(), r.ref("stuck"))
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "function shop/stuck: backlog is not known: not read yet")
		require.Equal(t, 500*time.Millisecond, time.Since(began))
	}, stuck)
}

func TestWithoutSubscriptionsBeingKnownThereIsNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		order := routeTo(shop, "order", "orders", orderPlaced)
		r := newRig(t)
		r.broker.create(order)
		r.broker.set(order, broker.Backlog{Pending: 2})
		r.start()
		_, _, err := r.ask(r.ref("order"))
		require.Equal(t, codes.Unavailable, status.Code(err))

		r.routes.post([]routing.Route{order})
		advance(100 * time.Millisecond)
		requireAnswer(t, r, 2, true)
	})
}

func TestAnOutageOfNATSIsAnErrorAndNeverZero(t *testing.T) {
	t.Parallel()
	asleep := routeTo(shop, "asleep", "asleep", "kyma.webshop.asleep.v1")
	busy := routeTo(shop, "busy", "busy", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(busy, broker.Backlog{Pending: 35})
		asleepObject, busyObject := r.keda("asleep", nil), r.keda("busy", nil)
		advance(time.Minute)
		require.Zero(t, asleepObject.Replicas())
		require.Equal(t, 4, busyObject.Replicas())

		r.broker.breakDown()
		_, _, err := r.ask(r.ref("asleep"))
		require.Equal(t, codes.Unavailable, status.Code(err), "at once, not when the reading is old")
		advance(8 * time.Minute) // less than the life of a push stream, which opens again after 2 s
		for _, object := range []*kedatest.ScaledObject{asleepObject, busyObject} {
			_, _, errs := object.Polls()
			require.NotEmpty(t, errs)
			for _, err := range errs {
				require.ErrorContains(t, err, "backlog is not known")
			}
		}
		_, values, _ := busyObject.Polls()
		require.NotContains(t, values, 0.0)
		require.Equal(t, 4, busyObject.Replicas(), "an error holds the replicas")
		require.Zero(t, asleepObject.Replicas(), "an error wakes no Function")
		require.Empty(t, r.logs.containing("backlog can be read again"))

		// What was published behind the scaler's back is found on reconnect.
		r.broker.set(asleep, broker.Backlog{Pending: 1})
		r.broker.comeBack()
		advance(100 * time.Millisecond)
		require.Equal(t, 1, asleepObject.Replicas())
		require.Len(t, r.logs.containing("backlog can be read again"), 2)
		value, active, err := r.ask(r.ref("busy"))
		require.NoError(t, err)
		require.True(t, active)
		require.InDelta(t, 35, value, 0)
	}, asleep, busy)
}

func TestAnOldReadingIsNoAnswer(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.broker.set(order, broker.Backlog{Pending: 5})
		requireAnswer(t, r, 5, true)
		r.broker.change(func() { r.broker.hang[order.Consumer] = true })
		advance(15 * time.Second)
		requireAnswer(t, r, 5, true)
		advance(2 * time.Second)
		_, _, err := r.ask(r.ref("order"))
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "last read 1")

		r.broker.change(func() { r.broker.hang[order.Consumer] = false })
		advance(5 * time.Second)
		requireAnswer(t, r, 5, true)
		require.Empty(t, r.logs.containing("activation sent"))
	}, order)
}

func TestAConsumerThatIsGoneIsNoBacklogAndComesBack(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", nil)
		r.broker.set(order, broker.Backlog{Pending: 15})
		advance(30 * time.Second)
		require.Equal(t, 2, object.Replicas())

		r.broker.remove(order)
		advance(3 * time.Second)
		requireAnswer(t, r, 0, false)
		require.LessOrEqual(t, object.Replicas(), 2, "never to the maximum")

		r.broker.create(order)
		advance(5 * time.Minute)
		require.Zero(t, object.Replicas())
		r.broker.publish(orderPlaced)
		synctest.Wait()
		require.Equal(t, 1, object.Replicas())
	}, order)
}

func TestAnOutageRightAfterAPublishDoesNotMultiplyReadings(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		requireAnswer(t, r, 0, false)
		advance(10 * time.Second)
		r.broker.change(func() { r.broker.err, r.broker.reads = errDown, 0 })
		r.broker.publish(orderPlaced)
		advance(14 * time.Second)
		requireAnswer(t, r, 1, true)
		r.broker.change(func() { require.Less(t, r.broker.reads, 10) })
		advance(2 * time.Second)
		_, _, err := r.ask(r.ref("order"))
		require.Equal(t, codes.Unavailable, status.Code(err))
	}, order)
}

func TestSubscriptionsThatComeAndGoAreFollowed(t *testing.T) {
	t.Parallel()
	orders := routeTo(shop, "order", "orders", orderPlaced)
	refunds := routeTo(shop, "order", "refunds", "kyma.webshop.refund.asked.v1")
	inBubble(t, func(r *rig) {
		t := r.t
		object := r.keda("order", seldom)
		advance(time.Minute)
		requireAnswer(t, r, 0, false)
		require.Zero(t, r.broker.listening(), "there is nothing to listen to")

		r.broker.create(orders)
		r.routes.post([]routing.Route{orders})
		advance(100 * time.Millisecond)
		require.Equal(t, 1, r.broker.listening())

		r.broker.create(refunds)
		r.routes.post([]routing.Route{orders, refunds})
		advance(100 * time.Millisecond)
		require.Equal(t, 1, r.broker.listening(), "one listener for both")
		r.broker.publish("kyma.webshop.refund.asked.v1")
		synctest.Wait()
		require.Equal(t, 1, object.Replicas())

		r.routes.post(nil)
		advance(3 * time.Second)
		requireAnswer(t, r, 0, false)
		require.Zero(t, r.broker.listening())
	})
}

func TestAFunctionThatKEDAForgotIsNotAskedFor(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.awake(orderFunction, true)
		r.requireActive(true, "")
		advance(65 * time.Second)
		reads := r.pods.count()
		require.NotZero(r.t, reads)
		advance(10 * time.Minute)
		require.Equal(r.t, reads, r.pods.count())
	})
}

func TestPodsThatCannotBeAskedAreAnErrorAndNeverZero(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		t := r.t
		r.awake(orderFunction, true)
		r.listings.post(true)
		advance(time.Second)
		r.pods.change(func(p *fakePods) { p.err = errors.New("pod 10.0.0.1:8080 did not respond in time") })
		_, err := r.calls()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "function shop/order: HTTP load is not known: pod 10.0.0.1:8080 did not respond in time")
		_, err = r.isActive()
		require.Equal(t, codes.Unavailable, status.Code(err))
		requireAnswer(t, r, 0, false) // without HTTP
		require.Len(t, r.logs.containing("calls of pods cannot be read"), 1)
		require.NotZero(t, value(t, r.registry, "rouse_scaler_pod_load_errors_total"))

		r.broker.publish(orderPlaced)
		synctest.Wait()
		r.requireActive(true, "there is a backlog")
		_, err = r.calls()
		require.Error(t, err)

		r.broker.set(order, broker.Backlog{})
		r.pods.change(func(p *fakePods) { p.err = nil })
		advance(20 * time.Second)
		r.requireActive(false, "")
		require.Len(t, r.logs.containing("calls of pods can be read again"), 1)
	}, order)
}

func TestPodsThatStallDelayNoAnswer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.awake(orderFunction, true)
		r.requireActive(true, "")
		r.pods.change(func(p *fakePods) { p.hangs = true })
		advance(2 * time.Second)
		began := time.Now()
		_, err := r.isActive()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.LessOrEqual(t, time.Since(began), time.Second)
	})
}

func TestNoPodIsAskedAtZeroReplicas(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.keda("order", wokenByHTTP)
		advance(time.Hour)
		require.Zero(r.t, r.pods.count())
	})
}

func TestPodsWhoseCallsCannotBeCountedAreNotAsked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		ref := r.ref("order", "httpConcurrency", "50", "httpCounted", "false")
		active := func() bool {
			answer, err := r.client.IsActive(t.Context(), ref)
			require.NoError(t, err)
			return answer.GetResult()
		}
		r.awake(orderFunction, true)
		r.listings.post(true)
		advance(time.Second)
		require.True(t, active())
		advance(20 * time.Second)
		require.False(t, active(), "nothing waits, and the gateways are listed")
		r.gateways.take(orderFunction, true)
		require.True(t, active())
		require.Zero(t, r.pods.count())
		require.NotEmpty(t, r.idleness.of(orderFunction))
	})
}

func TestCallsThatComeTogetherShareAReadingOfPods(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.awake(orderFunction, true)
		advance(time.Second)
		done := make(chan error)
		for range 10 {
			go func() {
				_, err := r.isActive()
				done <- err
			}()
			go func() {
				_, err := r.calls()
				done <- err
			}()
		}
		for range 20 {
			require.NoError(t, <-done)
		}
		require.Equal(t, 1, r.pods.count())
		advance(time.Second)
		r.requireActive(true, "")
		require.Equal(t, 2, r.pods.count(), "KEDA's next poll reads them again")
	})
}

func TestAPodThatIsNewIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		t := r.t
		r.requireActive(false, "")
		r.awake(orderFunction, true)
		r.pods.run(2)
		synctest.Wait()
		calls, err := r.calls()
		require.NoError(t, err)
		require.InDelta(t, 2, calls, 0)
	})
}

func TestAReadingIsOfThePodsThatThereAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var readings podReadings
		var asked []int
		for _, pods := range []int{1, 1, 2, 2, 1} {
			_, err := readings.read(t.Context(), make([]routing.Endpoint, pods),
				func(_ context.Context, endpoints []routing.Endpoint) (map[string]activation.PodLoad, error) {
					asked = append(asked, len(endpoints))
					return nil, nil
				})
			require.NoError(t, err)
		}
		require.Equal(t, []int{1, 2, 1}, asked)
	})
}

type silentEndpoints struct{}

func (silentEndpoints) Watch(ctx context.Context, _ types.NamespacedName, _ int32, _ func([]routing.Endpoint)) error {
	<-ctx.Done()
	return nil
}

func TestWithoutEndpointsBeingKnownCallsAreNotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.located = silentEndpoints{}
		r.routes.post(nil)
		r.start()
		_, err := r.isActive()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "endpoints are not known yet")
		requireAnswer(t, r, 0, false) // without HTTP
	})
}
