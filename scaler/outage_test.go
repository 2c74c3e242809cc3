package scaler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
		require.ErrorContains(t, err, "function shop/stuck: backlog is not known: it was not read yet")
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
		require.ErrorContains(t, err, "it was last read 1")

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
