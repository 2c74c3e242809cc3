package subscription

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func newWatchdog(to ConsumerRecovery, recorder events.EventRecorder) (*watchdog, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	return &watchdog{
		recoverer: to, stream: broker.DefaultStream, recorder: recorder,
		metrics: newMetrics(prometheus.NewRegistry()), clock: clock, log: logr.Discard(),
	}, clock
}

func connectTo(t *testing.T, server *natstest.Server) *broker.Conn {
	t.Helper()
	options := broker.DefaultOptions()
	options.URL = server.URL()
	conn, err := broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	require.Eventually(t, conn.Connected, timeout, tick)
	return conn
}

// A client pulls all that the consumer delivers and dies without settling. The consumer
// waits for a day, so that without recovery neither these events nor those behind them would be delivered.
func TestAConsumerWhoseDeliveredMessagesAreLostIsRenewed(t *testing.T) {
	t.Parallel()
	const limit, all = 10, 25
	server := natstest.Start(t)
	conn := connectTo(t, server)
	require.NoError(t, conn.EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
	consumer := broker.Consumer{
		Name: "c1", Subjects: []string{"kyma.shop.order.v1"}, MaxAckPending: limit, AckWait: 24 * time.Hour,
	}
	require.NoError(t, conn.EnsureConsumer(t.Context(), broker.DefaultStream, consumer))
	publisher := broker.NewPublisher(conn, broker.DefaultPublisherOptions())
	for i := range all {
		event := cloudevent.Event{ID: strconv.Itoa(i), Source: "shop", Type: "order.v1"}
		require.NoError(t, publisher.Publish(t.Context(), &event))
	}
	ours := types.NamespacedName{Namespace: "shop", Name: "orders"}
	stop, taken := make(chan struct{}), 0
	foreign := broker.NewSource(connectTo(t, server), broker.DefaultStream, "c1", ours, limit)
	require.NoError(t, foreign.Receive(t.Context(), stop, func(*broker.Message) {
		if taken++; taken == limit {
			close(stop)
		}
	}))

	got := make(chan *broker.Message, all)
	working, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for working.Err() == nil {
			_ = broker.NewSource(conn, broker.DefaultStream, "c1", ours, limit).Receive(working, nil, func(m *broker.Message) { got <- m })
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	recorder := events.NewFakeRecorder(10)
	dog, clock := newWatchdog(conn, recorder)
	sub := &eventingv1alpha2.Subscription{}
	sub.Namespace, sub.Name = ours.Namespace, ours.Name
	wanted := func() broker.Consumer { return consumer }
	inspect := func() {
		seen := asking(t, conn)
		dog.inspect(t.Context(), []watchedConsumer{{subscription: sub, wanted: wanted, seen: &seen, held: minHeldTimeout}})
	}
	inspect()
	for passed := time.Duration(0); passed < minHeldTimeout; passed += sweepInterval {
		require.Empty(t, recorder.Events, "after %s", passed)
		require.Empty(t, got)
		clock.SetTime(clock.Now().Add(sweepInterval))
		inspect()
	}
	require.Equal(t, "Warning ConsumerStuck The consumer did not deliver for 30m0s, with 15 events waiting and 10 in delivery: renewed",
		<-recorder.Events)
	require.InDelta(t, 1, testutil.ToFloat64(dog.metrics.recoveries.WithLabelValues("shop", "orders", string(renew))), 0)
	for i := range all {
		select {
		case m := <-got:
			event, err := m.Event()
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(i), event.ID)
			require.NoError(t, m.Ack(t.Context()))
		case <-time.After(timeout):
			require.FailNow(t, "no event came", i)
		}
	}
}

// asking is the consumer while a pull request waits.
func asking(t *testing.T, conn *broker.Conn) (found broker.Consumer) {
	t.Helper()
	require.Eventually(t, func() bool {
		consumers, err := conn.Consumers(t.Context(), broker.DefaultStream)
		require.NoError(t, err)
		require.Len(t, consumers, 1)
		found = consumers[0]
		return found.Progress.Waiting > 0
	}, timeout, tick)
	return found
}

func TestARecoveryThatFailsIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	to := &fakeRecovery{refused: errors.New("not permitted")}
	recorder := events.NewFakeRecorder(10)
	dog, clock := newWatchdog(to, recorder)
	sub := &eventingv1alpha2.Subscription{}
	sub.Namespace, sub.Name = "shop", "orders"
	for range 5 {
		seen := clustered(stuck())
		dog.inspect(t.Context(), []watchedConsumer{{subscription: sub, wanted: func() broker.Consumer { return seen }, seen: &seen}})
		clock.SetTime(clock.Now().Add(sweepInterval))
	}
	require.Equal(t, []recovery{moveLeader, renew}, to.tried)
	require.Empty(t, recorder.Events)
	require.Zero(t, testutil.CollectAndCount(dog.metrics.recoveries))
	dog.inspect(t.Context(), nil)
	require.Empty(t, dog.watches, "what is gone is forgotten")
}

type fakeRecovery struct {
	tried   []recovery
	refused error
}

func (f *fakeRecovery) MoveLeader(context.Context, string, string) error {
	f.tried = append(f.tried, moveLeader)
	return f.refused
}

func (f *fakeRecovery) RenewConsumer(context.Context, string, broker.Consumer) error {
	f.tried = append(f.tried, renew)
	return f.refused
}
