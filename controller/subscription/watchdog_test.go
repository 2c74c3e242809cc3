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
	"github.com/rouse-run/rouse/internal/routing"
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
func TestConsumerWithLostDeliveriesIsRenewed(t *testing.T) {
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

func TestAFailedConsumerRecoveryEscalates(t *testing.T) {
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

// stuck has events, capacity and a pull request, and delivers nothing.
func stuck() broker.Consumer {
	return broker.Consumer{
		MaxAckPending: 10,
		Backlog:       broker.Backlog{Pending: 5, AckPending: 3},
		Progress:      broker.Progress{Created: time.Unix(1, 0), Delivered: 100, Settled: 90, Waiting: 2, Replicas: 1},
	}
}

// full has delivered what it may, and nothing is settled.
func full() broker.Consumer {
	c := stuck()
	c.Backlog.AckPending = 10
	return c
}

func clustered(c broker.Consumer) broker.Consumer {
	c.Progress.Replicas = 3
	return c
}

// recoveriesOf inspects a consumer as often as the sweeper does and returns what was done, when.
func recoveriesOf(seenAt func(i int) broker.Consumer, held, duration, every time.Duration) map[time.Duration]recovery {
	done := map[time.Duration]recovery{}
	var w watch
	start := time.Unix(1000, 0)
	for i := 0; time.Duration(i)*every <= duration; i++ {
		after, what := w.next(seenAt(i), held, start.Add(time.Duration(i)*every))
		if w = after; what != noRecovery {
			done[time.Duration(i)*every] = what
		}
	}
	return done
}

func TestTheWatchdogLeavesHealthyConsumersAlone(t *testing.T) {
	t.Parallel()
	same := func(c broker.Consumer) func(int) broker.Consumer { return func(int) broker.Consumer { return c } }
	with := func(c broker.Consumer, change func(*broker.Consumer)) func(int) broker.Consumer {
		change(&c)
		return same(c)
	}
	for name, tc := range map[string]struct {
		seenAt func(i int) broker.Consumer
		held   time.Duration
		every  time.Duration
	}{
		"nothing is published": {seenAt: with(stuck(), func(c *broker.Consumer) { c.Backlog = broker.Backlog{} })},
		"it delivers slowly": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Progress.Delivered += uint64(i)
			return c
		}},
		"it is settled slowly": {seenAt: func(i int) broker.Consumer {
			c := full()
			c.Progress.Settled += uint64(i)
			return c
		}},
		"something behind the oldest is settled": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Backlog.AckPending = uint64(i % 10)
			return c
		}},
		"no pull request, as the sink sleeps or the Subscription is paused": {seenAt: with(stuck(), func(c *broker.Consumer) { c.Progress.Waiting = 0 })},
		"events went back to the consumer when their sink fell asleep":      {seenAt: with(full(), func(c *broker.Consumer) { c.Progress.Waiting, c.Backlog.Pending = 0, 0 })},
		"an administrator paused the consumer":                              {seenAt: with(stuck(), func(c *broker.Consumer) { c.Progress.Paused = true })},
		"all that it may deliver is in the hands of a sink that takes long": {seenAt: same(full()), held: 5 * time.Hour},
		"events wait in a bridge for others of their key":                   {seenAt: same(full())},
		"the last events are in the hands of a sink that takes long": {
			seenAt: with(stuck(), func(c *broker.Consumer) { c.Backlog.Pending = 0 }), held: 5 * time.Hour,
		},
		"NATS was away between the inspections": {seenAt: same(stuck()), every: 2 * time.Minute},
		"it is created again all the time": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Progress.Created = time.Unix(int64(i), 0)
			return c
		}},
		"events come in bursts that are delivered at once": {seenAt: func(i int) broker.Consumer {
			c := stuck()
			c.Backlog.Pending = uint64(i % 2)
			return c
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			every := tc.every
			if every == 0 {
				every = sweepInterval
			}
			require.Empty(t, recoveriesOf(tc.seenAt, tc.held, 4*time.Hour, every))
		})
	}
}

func TestAStuckConsumerIsRecoveredByLeaderMoveThenRenewalWithBackoff(t *testing.T) {
	t.Parallel()
	same := func(c broker.Consumer) func(int) broker.Consumer { return func(int) broker.Consumer { return c } }
	for name, tc := range map[string]struct {
		seenAt   func(i int) broker.Consumer
		duration time.Duration
		want     map[time.Duration]recovery
	}{
		"it has a request and does not answer it": {same(stuck()), 4 * time.Minute, map[time.Duration]recovery{
			time.Minute: renew, 3 * time.Minute: renew, // and then after four, eight ... minutes
		}},
		"its leader is moved first": {same(clustered(stuck())), 2 * time.Minute, map[time.Duration]recovery{
			time.Minute: moveLeader, 2 * time.Minute: renew,
		}},
		"its delivered messages are lost": {same(full()), time.Hour, map[time.Duration]recovery{30 * time.Minute: renew}},
		"in a cluster":                    {same(clustered(full())), 31 * time.Minute, map[time.Duration]recovery{30 * time.Minute: moveLeader, 31 * time.Minute: renew}},
		"a renewal is only a start": {func(i int) broker.Consumer {
			c := stuck()
			if i > 2 { // created again by the first recovery
				c.Progress.Created = time.Unix(2, 0)
			}
			return c
		}, 5 * time.Minute, map[time.Duration]recovery{time.Minute: renew, 3*time.Minute + 30*time.Second: renew}},
		"it goes on after its leader was moved": {func(i int) broker.Consumer {
			c := clustered(stuck())
			if i > 2 {
				c.Progress.Delivered += uint64(i)
			}
			return c
		}, time.Hour, map[time.Duration]recovery{time.Minute: moveLeader}},
		"a delivery resets the timeout": {func(i int) broker.Consumer {
			c := stuck()
			if i > 6 {
				c.Progress.Delivered++
			}
			return c
		}, 4*time.Minute + 30*time.Second, map[time.Duration]recovery{
			time.Minute: renew, 3 * time.Minute: renew, 4*time.Minute + 30*time.Second: renew,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, recoveriesOf(tc.seenAt, heldTimeout(routing.Route{}), tc.duration, sweepInterval))
		})
	}
}

func TestTheTimeoutOfAStuckConsumerIsBounded(t *testing.T) {
	t.Parallel()
	done := recoveriesOf(func(int) broker.Consumer { return stuck() }, 0, 24*time.Hour, sweepInterval)
	require.Greater(t, len(done), 24*60/40, "it is helped every half an hour at least")
}

func TestTheWatchdogAllowsTheSubscriptionsTimeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		delivery routing.Delivery
		want     time.Duration
	}{
		"nothing of its own":       {routing.Delivery{}, 30 * time.Minute},
		"a short timeout":          {routing.Delivery{Timeout: time.Second}, 30 * time.Minute},
		"a long timeout":           {routing.Delivery{Timeout: time.Hour}, 4 * time.Hour},
		"a long pause":             {routing.Delivery{Backoff: routing.Backoff{Policy: eventingv1alpha2.BackoffConstant, Delay: time.Hour}}, 4 * time.Hour},
		"a long pause at most":     {routing.Delivery{Backoff: routing.Backoff{MaxDelay: 2 * time.Hour}}, 8 * time.Hour},
		"events are kept in order": {routing.Delivery{OrderedBy: "subject"}, 0},
	} {
		require.Equal(t, tc.want, heldTimeout(routing.Route{Delivery: tc.delivery}), name)
	}
}
