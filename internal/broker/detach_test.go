package broker

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// inDetachedCalls waits until so many calls are detached, and so many retries wait.
func (f *feed) inDetachedCalls(t *testing.T, calls, retries uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		counts, err := f.conn.DetachedCalls(t.Context())
		own, ownErr := f.conn.DetachedCallsOf(t.Context(), subscription())
		return err == nil && ownErr == nil && counts[subscription()] == calls && own == calls && waitingRetries(t, f.conn) == retries
	}, testTimeout, moment)
}

func detach(t *testing.T, m *Message, within time.Duration) *Message {
	t.Helper()
	require.NoError(t, m.Detach(t.Context(), within))
	return m
}

func TestADetachedMessageDoesNotCountForMaxAckPending(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.MaxAckPending = 1 })
	f.publish(t, 3)
	s := f.source(t)
	first := detach(t, fetchOne(t, s), time.Hour)
	second := detach(t, fetchOne(t, s), time.Hour)
	require.Equal(t, "2", id(t, fetchOne(t, s)))
	f.inDetachedCalls(t, 2, 0)
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 1})

	require.NoError(t, first.Extend(t.Context()))
	require.ErrorIs(t, first.Detach(t.Context(), time.Hour), ErrSettled)
	require.NoError(t, first.Ack(t.Context()))
	f.inDetachedCalls(t, 1, 0)
	require.NoError(t, second.Reject(t.Context(), "test"))
	f.inDetachedCalls(t, 0, 0)
	require.ErrorIs(t, first.Ack(t.Context()), ErrSettled)
}

func TestADetachedCallThatFailsIsAnAttemptAndOneThatIsReturnedIsNone(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	forward(t, f.conn)
	f.publish(t, 1)
	s := f.source(t)
	require.NoError(t, detach(t, fetchOne(t, s), time.Hour).Return(t.Context(), 0))
	again := fetchOne(t, s)
	require.Equal(t, 1, again.Attempt())
	require.NoError(t, detach(t, again, time.Hour).Retry(t.Context(), 0))
	again = fetchOne(t, s)
	require.Equal(t, 2, again.Attempt())
	require.Equal(t, testSubject, again.Subject())
	require.NoError(t, detach(t, again, time.Hour).Return(t.Context(), 0))
	again = fetchOne(t, s)
	require.Equal(t, 2, again.Attempt())
	require.NoError(t, again.Ack(t.Context()))
	f.inDetachedCalls(t, 0, 0)
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestTheEventOfADetachedCallComesBackWhenItsBridgeIsKilled(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	killed := connect(t, f.server.URL())
	awaitConnected(t, killed)
	f.publish(t, 1)
	held := receive(t, newSource(killed))
	const within = 600 * time.Millisecond
	began := time.Now()
	m := detach(t, fetchOne(t, held), within)
	require.EqualValues(t, 1, m.metadata.NumDelivered)
	killed.nc.Close()
	forward(t, f.conn)
	back := fetchOne(t, f.source(t))
	require.GreaterOrEqual(t, time.Since(began), within)
	require.Equal(t, 1, back.Attempt(), "it is no attempt")
	require.True(t, m.Stored().Equal(back.Stored()))
	require.NoError(t, back.Ack(t.Context()))
	f.inDetachedCalls(t, 0, 0)
}

func TestWhereNothingCanBeStoredAMessageIsNotDetached(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, f *feed){
		"as the stream of retries is missing": func(t *testing.T, f *feed) {
			t.Helper()
			require.NoError(t, f.conn.js.DeleteStream(t.Context(), RetryStream))
		},
		"as its share is full": func(t *testing.T, f *feed) {
			t.Helper()
			options := testStreams()
			options.RetryMaxBytes = 1
			require.NoError(t, f.conn.EnsureStreams(t.Context(), options))
		},
		"as a controller of an earlier version has made the stream": func(t *testing.T, f *feed) {
			t.Helper()
			f.ofEarlierVersion(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
			spoil(t, f)
			f.publish(t, 1)
			m := fetchOne(t, f.source(t))
			require.Error(t, m.Detach(t.Context(), time.Hour))
			awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 1})
			require.NoError(t, m.Extend(t.Context()))
			require.NoError(t, m.Ack(t.Context()))
			awaitBacklog(t, f.conn, "c1", Backlog{})
		})
	}
}

// ofEarlierVersion has the stream of retries take and show what it did before calls were detached.
func (f *feed) ofEarlierVersion(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	stream, err := f.conn.js.Stream(ctx, RetryStream)
	require.NoError(t, err)
	for level := range lastRetryLevel + 1 {
		consumer, err := stream.Consumer(ctx, level.consumer())
		require.NoError(t, err)
		config := consumer.CachedInfo().Config
		config.FilterSubject, config.FilterSubjects = level.filters()[0], nil
		_, err = stream.UpdateConsumer(ctx, config)
		require.NoError(t, err)
	}
	config := stream.CachedInfo().Config
	config.Subjects = []string{delayPrefix + ".>", oldRetryPrefix + ".>"}
	_, err = f.conn.js.UpdateStream(ctx, config)
	require.NoError(t, err)
}

func TestStreamAndConsumersOfAnEarlierVersionAreChangedInPlace(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.ofEarlierVersion(t)
	f.publish(t, 2)
	s := f.source(t)
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), 2*time.Second))
	forward(t, f.conn)

	require.NoError(t, f.conn.EnsureStreams(t.Context(), testStreams()))
	detach(t, fetchOne(t, s), 2*time.Second)
	f.inDetachedCalls(t, 1, 1)
	attempts := map[string]int{}
	for range 2 {
		m := fetchOne(t, s)
		attempts[id(t, m)] = m.Attempt()
		require.NoError(t, m.Ack(t.Context()))
	}
	require.Equal(t, map[string]int{"0": 2, "1": 1}, attempts)
	f.inDetachedCalls(t, 0, 0)
}

// A sequence counts in one stream only.
func TestACopyOfADeletedStreamDeletesNoOtherMessage(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 2)
	s := f.source(t)
	m := detach(t, fetchOne(t, s), time.Hour)
	require.NoError(t, f.conn.js.DeleteStream(t.Context(), RetryStream))
	require.NoError(t, f.conn.EnsureStreams(t.Context(), testStreams()))
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), time.Hour))
	f.inDetachedCalls(t, 0, 1)
	require.NoError(t, m.Ack(t.Context()))
	f.inDetachedCalls(t, 0, 1)
}

func TestDetachedCallsOfASubscriptionThatGoesArePurged(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 1)
	m := detach(t, fetchOne(t, f.source(t)), time.Hour)
	require.NoError(t, f.conn.PurgeRetries(t.Context(), types.NamespacedName{Namespace: "shop", Name: "order"}))
	f.inDetachedCalls(t, 1, 0)
	require.NoError(t, f.conn.PurgeRetries(t.Context(), subscription()))
	f.inDetachedCalls(t, 0, 0)
	require.NoError(t, m.Ack(t.Context()), "there is nothing to delete")
}

// As many copies as a level shows would otherwise hold up what comes behind them.
func TestCopiesThatAreDeletedLeaveTheirLevelToOthers(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	forward(t, f.conn)
	f.publish(t, 20)
	s := f.source(t)
	consumer := func() *jetstream.ConsumerInfo {
		info, err := f.conn.consumerInfo(t.Context(), RetryStream, levelAbove(time.Hour).consumer())
		require.NoError(t, err)
		return info
	}
	var held []*Message
	for range 20 {
		held = append(held, detach(t, fetchOne(t, s), time.Hour))
	}
	require.Eventually(t, func() bool { return consumer().NumAckPending == 20 }, testTimeout, moment)
	for _, m := range held {
		require.NoError(t, m.Ack(t.Context()))
	}
	require.Eventually(t, func() bool { return consumer().NumAckPending == 0 && consumer().NumPending == 0 }, testTimeout, moment)
}

func TestCopiesCountForTheShareOfTheirNamespace(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 1)
	detach(t, fetchOne(t, f.source(t)), time.Hour)
	count := &retryCount{}
	require.NoError(t, f.conn.countRetries(t.Context(), subscription().Namespace, count))
	require.EqualValues(t, kibibyte, count.bytes)
	require.EqualValues(t, kibibyte, count.bySource[subscription().Name])
	require.Zero(t, count.waiting, "it does not come due in a crowd")
}

func TestTheRetryOfADetachedCallReplacesItsCopy(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	options := testStreams()
	options.RetryMaxBytes = 4 * kibibyte
	require.NoError(t, f.conn.EnsureStreams(t.Context(), options))
	f.publish(t, 2)
	s := f.source(t)
	first := detach(t, fetchOne(t, s), time.Hour)
	require.ErrorIs(t, fetchOne(t, s).Detach(t.Context(), time.Hour), ErrRetryShare)
	require.NoError(t, first.Retry(t.Context(), time.Hour))
	f.inDetachedCalls(t, 0, 1)
}

func TestADetachedCallWhoseRetryCannotBeStoredKeepsItsCopy(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 1)
	s := f.source(t)
	m := detach(t, fetchOne(t, s), 600*time.Millisecond)
	stream, err := f.conn.js.Stream(t.Context(), RetryStream)
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	config.MaxMsgs = 1
	_, err = f.conn.js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
	require.NoError(t, m.Retry(t.Context(), time.Hour))
	f.inDetachedCalls(t, 1, 0)
	forward(t, f.conn)
	require.Equal(t, 1, fetchOne(t, s).Attempt())
}
