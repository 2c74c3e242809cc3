package scaler

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
)

func TestReplicasAreWantedForBacklogAndCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		each           carries
		backlog, calls uint64
		want           int
	}{
		"nothing to do":                       {carries{10, 50}, 0, 0, 0},
		"one event":                           {carries{10, 50}, 1, 0, 1},
		"a backlog of as much as one carries": {carries{10, 50}, 10, 0, 1},
		"one event more":                      {carries{10, 50}, 11, 0, 2},
		"more calls than events":              {carries{10, 50}, 11, 101, 3},
		"calls that do not count":             {carries{10, 0}, 0, 101, 0},
		"a fraction of an event each":         {carries{0.001, 0}, math.MaxUint64, 0, math.MaxInt32},
	} {
		require.Equal(t, tc.want, tc.each.replicas(tc.backlog, tc.calls), name)
	}
}

func TestALargeBacklogAnnouncesTheReplicasThatItNeedsAtOnce(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.keda("order", seldom)
		advance(20 * time.Second)
		published := time.Now()
		r.broker.publish(orderPlaced)
		r.broker.set(order, broker.Backlog{Pending: 990, AckPending: 10})
		advance(100 * time.Millisecond)
		announced, last := r.wants.all()
		require.Equal(r.t, []int{100}, announced)
		require.LessOrEqual(r.t, last.Sub(published), shortestPause)

		advance(3 * time.Second)
		r.broker.set(order, broker.Backlog{Pending: 190, AckPending: 10})
		advance(time.Minute)
		announced, last = r.wants.all()
		require.Equal(r.t, 20, announced[len(announced)-1], "it follows the backlog")
		require.LessOrEqual(r.t, last.Sub(published), wantedFor)
		require.LessOrEqual(r.t, len(announced), 21, "one a second")
	}, order)
}

func TestAFunctionThatIsAwakeAndNeedsOneReplicaAnnouncesNothing(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.awake(order.Service, true)
		r.keda("order", seldom)
		advance(20 * time.Second)
		r.broker.publish(orderPlaced)
		advance(time.Minute)
		announced, _ := r.wants.all()
		require.Empty(r.t, announced)
	}, order)
}

func TestAWakeThatKEDADoesNotMakeIsAnnouncedEverySecond(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		_, _, err := r.ask(r.ref("order")) // once, and then KEDA is gone
		require.NoError(r.t, err)
		r.broker.publish(orderPlaced)
		advance(3500 * time.Millisecond)
		announced, _ := r.wants.all()
		require.GreaterOrEqual(r.t, len(announced), 3)
		require.Equal(r.t, 1, announced[0])
	}, order)
}

func TestTheTriggersThresholdsDecideWhatAReplicaCarries(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.keda("order", func(o *kedatest.Options) { seldom(o); o.Metadata["lagThreshold"] = "100" })
		advance(20 * time.Second)
		r.broker.publish(orderPlaced)
		r.broker.set(order, broker.Backlog{Pending: 250})
		advance(100 * time.Millisecond)
		announced, _ := r.wants.all()
		require.Equal(r.t, []int{3}, announced)
	}, order)
}

func TestRequestsThatWaitAnnounceTheReplicasThatTheyNeed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) { // a Function without Subscriptions
		r.keda("order", func(o *kedatest.Options) { seldom(o); wokenByHTTP(o); o.Metadata["httpConcurrency"] = "2" })
		advance(20 * time.Second)
		for range 7 {
			r.gateways.take(orderFunction, true)
		}
		synctest.Wait()
		advance(100 * time.Millisecond)
		announced, _ := r.wants.all()
		require.NotEmpty(r.t, announced)
		require.Equal(r.t, 4, announced[len(announced)-1])
	})
}

func TestAPausedSubscriptionAnnouncesNoReplicas(t *testing.T) {
	t.Parallel()
	order := paused(routeTo(shop, "order", "orders", orderPlaced))
	inBubble(t, func(r *rig) {
		r.keda("order", seldom)
		r.broker.set(order, broker.Backlog{Pending: 1000})
		r.broker.publish(orderPlaced)
		advance(time.Minute)
		announced, _ := r.wants.all()
		require.Empty(r.t, announced)
	}, order)
}

func TestTheCourseOfAWakeIsAnnounced(t *testing.T) {
	t.Parallel()
	order := routeTo(shop, "order", "orders", orderPlaced)
	inBubble(t, func(r *rig) {
		r.keda("order", seldom)
		advance(20 * time.Second)
		require.Empty(r.t, r.wants.woken())
		published := time.Now()
		r.broker.publish(orderPlaced)
		r.broker.set(order, broker.Backlog{Pending: 1})
		advance(5 * time.Second)
		courses := r.wants.woken()
		require.Len(r.t, courses, 1)
		wake := courses[0]
		require.Equal(r.t, activation.WokenByPublish, wake.Cause)
		require.WithinDuration(r.t, published, wake.Began, 0)
		require.Positive(r.t, wake.SentMS)
		require.GreaterOrEqual(r.t, wake.ReadyMS, time.Second.Milliseconds(), "pods take a second")
		require.Equal(r.t, wake.ReadyMS, wake.AddressedMS)

		advance(10 * time.Second)
		require.Len(r.t, r.wants.woken(), 1, "it stays awake")
	}, order)
}

func TestAWakeHasNoStagesOfTheOneBefore(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	reached := stages{sent: at.Add(-time.Minute), addressed: at.Add(300 * time.Millisecond)}
	require.Equal(t, activation.Wake{Cause: "request", Began: at, AddressedMS: 300, ReadyMS: 900},
		courseOf(edge{at: at, cause: causeRequest}, reached, at.Add(900*time.Millisecond)))
}
