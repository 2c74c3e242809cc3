package broker

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestEnsureConsumerCreatesADurablePullConsumer(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{
		Name: "c1", Description: "ns/orders", Subjects: []string{"kyma.shop.order.v1"},
		Metadata: map[string]string{"rouse.run/subscription": "ns/orders"},
	})

	handle, err := conn.js.Consumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	config := handle.CachedInfo().Config
	require.Equal(t, "c1", config.Durable)
	require.Equal(t, jetstream.DeliverNewPolicy, config.DeliverPolicy)
	require.Equal(t, jetstream.AckExplicitPolicy, config.AckPolicy)
	require.Equal(t, -1, config.MaxDeliver)
	require.Equal(t, 30*time.Second, config.AckWait)
	require.Equal(t, 1000, config.MaxAckPending)
}

func TestEnsureConsumerChangesInPlaceAndKeepsTheBacklog(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	consumer := Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.v1"}}
	ensureConsumer(t, conn, consumer)
	publishRaw(t, conn, "kyma.shop.order.v1", 3)

	for name, change := range map[string]func(*Consumer){
		"another subject":   func(c *Consumer) { c.Subjects = []string{"kyma.shop.order.v1", "kyma.shop.order.v2"} },
		"other metadata":    func(c *Consumer) { c.Metadata = map[string]string{"key": "value"} },
		"other description": func(c *Consumer) { c.Description = "ns/orders" },
		"other limits":      func(c *Consumer) { c.AckWait, c.MaxAckPending = time.Minute, 17 },
		"order":             func(c *Consumer) { c.Ordered = true },
		"nothing":           func(*Consumer) {},
		"no order":          func(c *Consumer) { c.Ordered = false },
	} {
		change(&consumer)
		ensureConsumer(t, conn, consumer)
		consumers, err := conn.Consumers(t.Context(), testStream)
		require.NoError(t, err, name)
		require.Len(t, consumers, 1, name)
		require.ElementsMatch(t, consumer.Subjects, consumers[0].Subjects, name)
		require.Equal(t, ownMetadata(consumer.Metadata), consumers[0].Metadata, name)
		require.Equal(t, consumer.Description, consumers[0].Description, name)
		require.Equal(t, consumer.ackWait(), consumers[0].AckWait, name)
		require.Equal(t, consumer.maxAckPending(), consumers[0].MaxAckPending, name)
		require.Equal(t, consumer.Ordered, consumers[0].Ordered, name)
		awaitBacklog(t, conn, "c1", Backlog{Pending: 3})
	}
}

func TestEnsureConsumerRefusesWhatJetStreamRefuses(t *testing.T) {
	t.Parallel()
	_, conn := start(t)

	overlapping := Consumer{Name: "c1", Subjects: []string{"kyma.shop.*", "kyma.shop.order"}}
	err := conn.EnsureConsumer(t.Context(), testStream, overlapping)
	require.ErrorIs(t, err, ErrOverlappingSubjects)
	require.ErrorContains(t, err, "kyma.shop.*, kyma.shop.order")

	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.*"}})
	require.ErrorIs(t, conn.EnsureConsumer(t.Context(), testStream, overlapping), ErrOverlappingSubjects)

	require.Error(t, conn.EnsureConsumer(t.Context(), testStream, Consumer{Name: "c2"}))
	require.ErrorIs(t, conn.EnsureConsumer(t.Context(), "nowhere", Consumer{Name: "c2", Subjects: []string{"kyma.a"}}), ErrNoStream)
}

func TestDeleteConsumerTakesAnAbsentOneForDeleted(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.v1"}})
	require.NoError(t, conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.NoError(t, conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.NoError(t, conn.DeleteConsumer(t.Context(), "nowhere", "c1"))
	_, err := conn.Backlog(t.Context(), testStream, "c1")
	require.ErrorIs(t, err, ErrConsumerNotFound)
	_, err = conn.Backlog(t.Context(), "nowhere", "c1")
	require.ErrorIs(t, err, ErrNoStream)
}

func publishRaw(t *testing.T, conn *Conn, subject string, count int) {
	t.Helper()
	ctx := t.Context()
	for range count {
		_, err := conn.js.Publish(ctx, subject, []byte("{}"))
		require.NoError(t, err)
	}
}

func awaitBacklog(t *testing.T, conn *Conn, consumer string, want Backlog) {
	t.Helper()
	var got Backlog
	defer func() {
		if t.Failed() {
			t.Logf("backlog of %s: %+v, want %+v", consumer, got, want)
			logConsumers(t, conn, RetryStream)
		}
	}()
	require.Eventually(t, func() bool {
		var err error
		got, err = conn.Backlog(t.Context(), testStream, consumer)
		return err == nil && got == want
	}, 3*testTimeout, moment)
}

// logConsumers tells what is left of a stream, and with whom.
func logConsumers(t *testing.T, conn *Conn, stream string) {
	t.Helper()
	found, err := conn.js.Stream(t.Context(), stream)
	if err != nil {
		t.Logf("stream %s: %v", stream, err)
		return
	}
	t.Logf("stream %s: %+v", stream, found.CachedInfo().State)
	for consumer := range found.ListConsumers(t.Context()).Info() {
		if consumer.NumPending > 0 || consumer.NumAckPending > 0 {
			t.Logf("consumer %s: pending %d, unacknowledged %d, redelivered %d, waiting %d", consumer.Name, consumer.NumPending,
				consumer.NumAckPending, consumer.NumRedelivered, consumer.NumWaiting)
		}
	}
}

func TestConsumerOfARoute(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		maxInFlight int
		orderedBy   string
		want        int
	}{
		"the server holds the limit":            {maxInFlight: 7, want: 7},
		"order leaves room for those who wait":  {maxInFlight: 1, orderedBy: "subject", want: 100},
		"a larger limit with order leaves more": {maxInFlight: 50, orderedBy: "subject", want: 500},
		"no limit leaves without end":           {maxInFlight: 10_000, orderedBy: "subject", want: 1000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := routing.Route{MaxInFlight: tc.maxInFlight, Consumer: routing.ConsumerName("ns", "name")}
			route.Subscription.Namespace, route.Subscription.Name = "ns", "name"
			route.Delivery.OrderedBy = tc.orderedBy
			consumer := ConsumerOf(route)
			require.Equal(t, tc.want, consumer.MaxAckPending)
			require.Equal(t, tc.orderedBy != "", consumer.Ordered)
			key, ours := SubscriptionOf(consumer)
			require.True(t, ours)
			require.Equal(t, route.Subscription, key)
			consumer.Name = "copied"
			_, ours = SubscriptionOf(consumer)
			require.False(t, ours)
		})
	}
}

func TestConsumerOfARouteStartsWhereTheSubscriptionSays(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	tests := map[string]struct {
		start routing.StartFrom
		want  StartFrom
	}{
		"from now on":     {},
		"new is the same": {start: routing.StartFrom{Position: eventingv1alpha2.StartNew}},
		"all":             {start: routing.StartFrom{Position: eventingv1alpha2.StartAll}, want: StartFrom{Policy: StartAll}},
		"a time": {
			start: routing.StartFrom{Position: eventingv1alpha2.StartTime, Time: at},
			want:  StartFrom{Policy: StartTime, Time: at},
		},
		"a sequence": {
			start: routing.StartFrom{Position: eventingv1alpha2.StartSequence, Sequence: 7},
			want:  StartFrom{Policy: StartSequence, Sequence: 7},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, ConsumerOf(routing.Route{Delivery: routing.Delivery{StartFrom: tc.start}}).StartFrom)
		})
	}
}

func TestConsumerMetadataHasTheSubscriptionUID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "one", ConsumerOf(routing.Route{UID: "one"}).Metadata[MetadataUID])
	require.NotContains(t, ConsumerOf(routing.Route{}).Metadata, MetadataUID)
}

func TestAConsumerThatIsRenewedUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]StartFrom{"that began with new events": {}, "that began with all events": {Policy: StartAll}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const events, renewals = 400, 5
			consumer := Consumer{Name: "c1", Subjects: []string{testSubject}, StartFrom: from, AckWait: 2 * time.Second}
			f := newFeed(t, func(c *Consumer) { *c = consumer })
			seen := collect(t.Context(), t, newSource(f.conn))
			published := make(chan error, 1)
			go func() {
				for i := range events {
					if err := f.Publish(t.Context(), eventWithID(strconv.Itoa(i))); err != nil {
						published <- err
						return
					}
				}
				published <- nil
			}()
			for i := range renewals {
				require.Eventually(t, func() bool { return len(seen()) > i*events/renewals/2 }, testTimeout, moment)
				renewConsumer(t, f.conn, consumer)
			}
			require.NoError(t, await(t, published))
			require.Eventually(t, func() bool { return len(seen()) == events }, testTimeout, moment)
			awaitBacklog(t, f.conn, "c1", Backlog{})
			_, err := f.conn.js.Consumer(t.Context(), testStream, "c1"+standbySuffix)
			require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
		})
	}
}

// renewConsumer goes on as the controller does with a renewal that fails: a server may still be deleting the files
// of the consumer that it is asked to make again.
func renewConsumer(t *testing.T, conn *Conn, consumer Consumer) {
	t.Helper()
	if conn.RenewConsumer(t.Context(), testStream, consumer) != nil {
		require.Eventually(t, func() bool { return conn.EnsureConsumer(t.Context(), testStream, consumer) == nil }, testTimeout, moment)
	}
}

func TestARenewedConsumerGoesOnWhereTheOldOneStood(t *testing.T) {
	t.Parallel()
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject}, StartFrom: StartFrom{Policy: StartAll}, AckWait: time.Hour}
	f := newFeed(t, func(c *Consumer) { *c = consumer })
	ensureConsumer(t, f.conn, Consumer{Name: "c2", Subjects: []string{testSubject}}) // the stream keeps everything for it
	f.publish(t, 5)
	s := f.source(t)
	for range 3 {
		require.NoError(t, fetchOne(t, s).Ack(t.Context()))
	}
	held := fetchOne(t, s)
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 2})

	renewConsumer(t, f.conn, consumer)
	require.ErrorIs(t, await(t, s.ended), ErrConsumerNotFound)
	again := f.source(t)
	require.Equal(t, id(t, held), id(t, fetchOne(t, again)), "what was held comes again, what was settled does not")
	require.Equal(t, "4", id(t, fetchOne(t, again)))
	ensureConsumer(t, f.conn, consumer)
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 2})
}

func TestAConsumerThatIsGoneCannotBeRenewed(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	require.ErrorIs(t, conn.RenewConsumer(t.Context(), testStream, Consumer{Name: "c1"}), ErrConsumerNotFound)
}

func TestAConsumerThatAnotherClientChangedIsRepaired(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*jetstream.ConsumerConfig){
		"it refuses our requests": func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 1 },
		"it gives up too early":   func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 1 },
		"it leaves the data out":  func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true },
		"it expires":              func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour },
		"it asks for groups": func(c *jetstream.ConsumerConfig) {
			c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyOverflow, []string{"a"}
		},
		"it takes other subjects":     func(c *jetstream.ConsumerConfig) { c.FilterSubjects = []string{"kyma.other"} },
		"it has another time to wait": func(c *jetstream.ConsumerConfig) { c.BackOff, c.MaxDeliver = []time.Duration{time.Hour}, 2 },
		"it waits for no ack":         func(c *jetstream.ConsumerConfig) { c.AckPolicy = jetstream.AckNonePolicy },
		"it replays as it was":        func(c *jetstream.ConsumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy },
		"it lives in memory":          func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true },
		"it pushes":                   func(c *jetstream.ConsumerConfig) { c.DeliverSubject = "nobody.listens" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, conn := start(t)
			f := &feed{Publisher: NewPublisher(conn, publisherOptions()), conn: conn}
			ours := Consumer{Name: "c1", Subjects: []string{testSubject}}
			spoilt := ours.config()
			spoil(&spoilt)
			create(t, conn, spoilt)
			require.False(t, ours.Matches(only(t, conn)))
			require.False(t, ours.Matches(only(t, conn)), "a comparison changes nothing")

			ensureConsumer(t, conn, ours)
			require.True(t, ours.Matches(only(t, conn)))
			f.publish(t, 1)
			message := fetchOne(t, f.source(t))
			require.Equal(t, "0", id(t, message))
			require.NoError(t, message.Ack(t.Context()))
			awaitBacklog(t, conn, "c1", Backlog{})
		})
	}
}

func TestAListedConsumerSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	before := only(t, f.conn)
	require.Equal(t, Progress{Created: before.Progress.Created, Replicas: 1}, before.Progress)
	require.NotZero(t, before.Progress.Created)
	f.publish(t, 3)
	s := f.source(t)
	require.NoError(t, fetchOne(t, s).Ack(t.Context()))
	require.Eventually(t, func() bool {
		after := only(t, f.conn)
		return after.Progress.Settled == 1 && after.Progress.Delivered == 3 && after.Progress.Waiting > 0 && after.Backlog == Backlog{AckPending: 2}
	}, testTimeout, moment)
}

// only is the consumer that the stream has.
func only(t *testing.T, conn *Conn) Consumer {
	t.Helper()
	consumers, err := conn.Consumers(t.Context(), testStream)
	require.NoError(t, err)
	require.Len(t, consumers, 1)
	return consumers[0]
}

func TestASourceFollowsTheLeaderOfItsConsumer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes its time")
	}
	_, conn := startCluster(t)
	f := NewPublisher(conn, publisherOptions())
	seen := collect(t.Context(), t, NewSource(conn, testStream, "c1", subscription(), 10))
	for i := range 5 {
		require.Eventually(t, func() bool { return waiting(t, conn) > 0 }, testTimeout, moment, "its request stands")
		require.Eventually(t, func() bool { return conn.MoveLeader(t.Context(), testStream, "c1") == nil }, testTimeout, moment)
		require.Eventually(t, func() bool { return f.Publish(t.Context(), eventWithID(strconv.Itoa(i))) == nil }, testTimeout, moment)
		require.Eventually(t, func() bool { return len(seen()) == i+1 }, testTimeout, moment)
	}
	require.Equal(t, 3, only(t, conn).Progress.Replicas)
	var refused *APIError
	require.ErrorAs(t, conn.MoveLeader(t.Context(), testStream, "nobody"), &refused)
}
