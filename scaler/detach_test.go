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
		advance(time.Second)
		require.InDelta(t, 1, ask(), 0)

		r.broker.change(func() { r.broker.calls = map[types.NamespacedName]uint64{order.Subscription: 3} })
		r.broker.set(order, broker.Backlog{})
		advance(10 * time.Minute)
		require.InDelta(t, 3, ask(), 0)
		r.broker.set(order, broker.Backlog{Pending: 1, AckPending: 1})
		advance(time.Minute)
		require.InDelta(t, 5, ask(), 0, "they count for its replicas, too")

		r.broker.set(order, broker.Backlog{})
		r.broker.change(func() { r.broker.calls = nil })
		advance(time.Minute)
		require.Zero(t, ask())
	}, order)
}

func TestAScalerThatStartsCountsTheCallsThatRun(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.change(func() { r.broker.calls = map[types.NamespacedName]uint64{order.Subscription: 1} })
		advance(time.Minute)
		value, active, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		require.InDelta(t, 1, value, 0)
		require.True(t, active)
	}, order)
}

func TestDetachedCallsOfASleepingFunctionAreNotCounted(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		_, _, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		advance(time.Minute)
		count := func() (reads, callReads int) {
			r.broker.change(func() { reads, callReads = r.broker.reads, r.broker.callReads })
			return reads, callReads
		}
		reads, callReads := count()
		advance(time.Hour)
		readsLater, callReadsLater := count()
		require.Greater(t, readsLater, reads)
		require.Equal(t, callReads, callReadsLater)
	}, order)
}

func TestUncountableDetachedCallsAreAnError(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.broker.publish(orderPlaced)
		advance(time.Second)
		r.broker.set(order, broker.Backlog{})
		r.broker.change(func() { r.broker.callErr = errDown })
		advance(time.Minute)
		_, _, err := r.ask(r.ref("order"))
		require.Error(t, err, "KEDA keeps the pods that there are")
		r.broker.change(func() { r.broker.callErr = nil })
		advance(time.Minute)
		value, _, err := r.ask(r.ref("order"))
		require.NoError(t, err)
		require.Zero(t, value)
	}, order)
}
