package scaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
)

func TestAFunctionStaysAwakeForCallsThatHaveLeftItsBacklog(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		ask := func() float64 {
			value, _, err := r.ask(r.ref("order"))
			require.NoError(t, err)
			return value
		}
		require.Zero(t, ask())
		r.broker.publish(orderPlaced)
		pass(time.Second)
		require.InDelta(t, 1, ask(), 0)

		r.broker.change(func() { r.broker.calls = map[types.NamespacedName]uint64{order.Subscription: 3} })
		r.broker.set(order, broker.Backlog{})
		pass(10 * time.Minute)
		require.InDelta(t, 3, ask(), 0)
		r.broker.set(order, broker.Backlog{Pending: 1, AckPending: 1})
		pass(time.Minute)
		require.InDelta(t, 5, ask(), 0, "they count for its replicas, too")

		r.broker.set(order, broker.Backlog{})
		r.broker.change(func() { r.broker.calls = nil })
		pass(time.Minute)
		require.Zero(t, ask())
	}, order)
}

func TestAScalerThatStartsCountsTheCallsThatRun(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.change(func() { r.broker.calls = map[types.NamespacedName]uint64{order.Subscription: 1} })
		pass(time.Minute)
		value, active, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		require.InDelta(t, 1, value, 0)
		require.True(t, active)
	}, order)
}

func TestNobodyAsksForTheCallsOfAFunctionThatSleeps(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		_, _, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		pass(time.Minute)
		count := func() (reads, callReads int) {
			r.broker.change(func() { reads, callReads = r.broker.reads, r.broker.callReads })
			return reads, callReads
		}
		reads, callReads := count()
		pass(time.Hour)
		readsLater, callReadsLater := count()
		require.Greater(t, readsLater, reads)
		require.Equal(t, callReads, callReadsLater)
	}, order)
}

func TestCallsThatCannotBeCountedAreNotNone(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.publish(orderPlaced)
		pass(time.Second)
		r.broker.set(order, broker.Backlog{})
		r.broker.change(func() { r.broker.callErr = errDown })
		pass(time.Minute)
		_, _, err := r.ask(r.ref("order"))
		require.Error(t, err, "KEDA keeps the pods that there are")
		r.broker.change(func() { r.broker.callErr = nil })
		pass(time.Minute)
		value, _, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		require.Zero(t, value)
	}, order)
}
