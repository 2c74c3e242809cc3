package broker

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/failure"
)

func TestAReturnedMessageComesAgainAsTheSameAttempt(t *testing.T) {
	t.Parallel()
	const delay = 700 * time.Millisecond
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	f.publish(t, 1)
	s := f.source(t)
	begin := time.Now()
	require.NoError(t, fetchOne(t, s).Return(t.Context(), delay))
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 1})
	second := fetchOne(t, s)
	require.GreaterOrEqual(t, time.Since(begin), delay)
	require.Equal(t, 1, second.Attempt())
	require.NoError(t, second.Return(t.Context(), 0))
	require.NoError(t, fetchOne(t, s).Ack(t.Context()))
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestExtendPreventsRedelivery(t *testing.T) {
	t.Parallel()
	const ackWait = 3 * time.Second // with a margin for machines that stand still for a second
	f := newFeed(t, func(c *Consumer) { c.AckWait = ackWait })
	f.publish(t, 2)
	s := f.source(t)
	messages := fetch(t, s, 2)
	require.Len(t, messages, 2)
	kept, left := messages[0], messages[1]

	ticker := time.NewTicker(ackWait / 15)
	defer ticker.Stop()
	stop := make(chan struct{})
	extended := make(chan error, 1)
	go func() {
		for {
			select {
			case <-ticker.C:
				if err := kept.Extend(context.WithoutCancel(t.Context())); err != nil {
					extended <- err
					return
				}
			case <-stop:
				extended <- nil
				return
			}
		}
	}()
	// The other message comes again twice; the extended one never.
	for range 2 {
		require.Equal(t, left.Sequence(), fetchOne(t, s).Sequence())
	}
	close(stop)
	require.NoError(t, await(t, extended))
	require.NoError(t, kept.Ack(t.Context()))
	require.NoError(t, kept.Extend(t.Context()), "after it is settled it does nothing")
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 1})
}

func TestAMessageIsSettledOnce(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 1)
	message := fetchOne(t, f.source(t))
	require.NoError(t, message.Ack(t.Context()))
	require.ErrorIs(t, message.Ack(t.Context()), ErrSettled)
	require.ErrorIs(t, message.Retry(t.Context(), 0), ErrSettled)
	require.ErrorIs(t, message.Return(t.Context(), 0), ErrSettled)
	require.ErrorIs(t, message.Reject(t.Context(), "late"), ErrSettled)
}

func TestAckWaitsForAReconnect(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	f.publish(t, 2)
	messages := fetch(t, f.source(t), 2)
	require.Len(t, messages, 2)
	f.server.Stop()
	require.Eventually(t, func() bool { return !f.conn.Connected() }, testTimeout, moment)

	impatient, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	require.ErrorIs(t, messages[0].Ack(impatient), ErrNotConnected)

	acked := make(chan error, 2)
	go func() { acked <- messages[0].Ack(t.Context()) }()
	go func() { acked <- messages[1].Reject(t.Context(), "bad") }()
	f.server.Run()
	require.NoError(t, await(t, acked))
	require.NoError(t, await(t, acked))
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestAcksAreSentInBatchesAndNoneWaitsLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		batches := make(chan int, 10) // acks of each
		a := acks{send: func(replies []string) { batches <- len(replies) }}
		for range 2*ackBatch + 1 {
			a.add("reply")
		}
		require.Len(t, batches, 2)
		require.Equal(t, ackBatch, <-batches)
		require.Equal(t, ackBatch, <-batches)
		begun := time.Now()
		require.Equal(t, 1, <-batches)
		require.Equal(t, ackDelay, time.Since(begun))
		time.Sleep(time.Hour)
		require.Empty(t, batches, "there is no timer without an ack")
		a.add("reply")
		begun = time.Now()
		require.Equal(t, 1, <-batches)
		require.Equal(t, ackDelay, time.Since(begun))
	})
}

func TestEachAckIsSentOnce(t *testing.T) {
	t.Parallel()
	const senders, each = 8, 1000
	sent := map[string]int{}
	a := acks{send: func(replies []string) { // one call at a time
		for _, reply := range replies {
			sent[reply]++
		}
	}}
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for i := range each {
				a.add(strconv.Itoa(sender*each + i))
			}
		})
	}
	sending.Wait()
	a.flush()
	require.Len(t, sent, senders*each)
	for reply, times := range sent {
		require.Equal(t, 1, times, reply)
	}
}

func twoAhead() (deliveries, ahead int) { return 10, 2 }

func TestACloseSendsTheAcksThatAreCollected(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	f.publish(t, 3)
	leaving := connect(t, f.server.URL())
	awaitConnected(t, leaving)
	for _, message := range fetch(t, receive(t, newSource(leaving).Holding(twoAhead)), 3) {
		require.NoError(t, message.Ack(t.Context()))
	}
	require.NoError(t, leaving.Close(t.Context()))
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestAcksThatWereCollectedOutlastAnOutage(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	f.publish(t, 2)
	messages := fetch(t, receive(t, newSource(f.conn).Holding(twoAhead)), 2)
	f.server.Stop()
	require.Eventually(t, func() bool { return !f.conn.Connected() }, testTimeout, moment)
	for _, message := range messages { // as if they were acked just before
		f.conn.acks.add(message.raw.Reply)
	}
	f.conn.acks.flush()
	f.server.Run()
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestDeadLettersAreStoredOnceBeforeTheirRejection(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	f.publish(t, 1)
	s := f.source(t)
	first := fetchOne(t, s)
	orders := types.NamespacedName{Namespace: "shop", Name: "orders.v1"}
	deadLetter := DeadLetter{
		Subscription: orders, Reason: failure.SinkRejected, Attempts: 1, Status: 400,
		BodyExcerpt: "no\r\nNats-Msg-Id: forged " + strings.Repeat("ü", 2000),
	}

	require.NoError(t, f.conn.AddDeadLetter(t.Context(), deadLetter, first))
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 1})
	require.NoError(t, first.Return(t.Context(), 0))
	again := fetchOne(t, s)
	require.Equal(t, first.Sequence(), again.Sequence())
	deadLetter.Attempts = 2
	require.NoError(t, f.conn.AddDeadLetter(t.Context(), deadLetter, again), "the repeat after a crash")
	require.NoError(t, again.Reject(t.Context(), string(deadLetter.Reason)+"\r\n"))
	require.Equal(t, uint64(1), deadLetterCount(t, f.conn, orders))

	f.publish(t, 1)
	second := fetchOne(t, s)
	require.NoError(t, f.conn.AddDeadLetter(t.Context(), deadLetter, second))
	require.NoError(t, second.Reject(t.Context(), ""))
	require.Equal(t, uint64(2), deadLetterCount(t, f.conn, orders))
	require.Zero(t, deadLetterCount(t, f.conn, types.NamespacedName{Namespace: "shop", Name: "orders"}))
	awaitBacklog(t, f.conn, "c1", Backlog{})

	stream, err := f.conn.js.Stream(t.Context(), DeadLetterStream)
	require.NoError(t, err)
	stored, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "rouse.deadletter.shop.orders.v1", stored.Subject)
	for name, want := range map[string]string{
		HeaderDeadLetterSubscription: "shop/orders.v1",
		HeaderDeadLetterReason:       "SinkRejected",
		HeaderDeadLetterMessage:      "sink refused the event",
		HeaderAttempts:               "1",
		HeaderDeadLetterStatus:       "400",
		HeaderSubject:                testSubject,
		HeaderDeadLetterSequence:     "1",
		"ce-id":                      "0",
	} {
		require.Equal(t, want, stored.Header.Get(name), name)
	}
	require.Len(t, stored.Header.Values("Nats-Msg-Id"), 1)
	require.NotContains(t, stored.Header.Get("Nats-Msg-Id"), "forged")
	excerpt := stored.Header.Get(HeaderDeadLetterExcerpt)
	require.True(t, strings.HasPrefix(excerpt, "no Nats-Msg-Id: forged ü"))
	require.LessOrEqual(t, len(excerpt), maxExcerpt)
	event, err := decode(stored.Header, stored.Data)
	require.NoError(t, err)
	require.Equal(t, "0", event.ID)
	require.Equal(t, "order.received.v1", event.Type)
}

func TestDeadLettersAreNotStoredWithoutAConnection(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 1)
	message := fetchOne(t, f.source(t))
	f.server.Stop()
	require.Eventually(t, func() bool { return !f.conn.Connected() }, testTimeout, moment)
	subscription := types.NamespacedName{Namespace: "a", Name: "b"}
	require.ErrorIs(t, f.conn.AddDeadLetter(t.Context(), DeadLetter{Subscription: subscription}, message), ErrNotConnected)
	_, err := f.conn.DeadLetters(t.Context(), subscription)
	require.ErrorIs(t, err, ErrNotConnected)
}

func TestAnUndecodableMessageCanBecomeADeadLetter(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	_, err := f.conn.js.PublishMsg(t.Context(), &nats.Msg{Subject: testSubject, Data: []byte("no event")})
	require.NoError(t, err)
	message := fetchOne(t, f.source(t))
	_, err = message.Event()
	require.ErrorIs(t, err, ErrUndecodable)
	subscription := types.NamespacedName{Namespace: "a", Name: "b"}
	require.NoError(t, f.conn.AddDeadLetter(t.Context(), DeadLetter{Subscription: subscription}, message))
	require.NoError(t, message.Reject(t.Context(), "undecodable"))
	require.Equal(t, uint64(1), deadLetterCount(t, f.conn, subscription))
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func deadLetterCount(t *testing.T, conn *Conn, subscription types.NamespacedName) uint64 {
	t.Helper()
	count, err := conn.DeadLetters(t.Context(), subscription)
	require.NoError(t, err)
	return count
}

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
	const due = 10 * time.Second // after all of the changes
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), due))
	forward(t, f.conn)

	require.NoError(t, f.conn.EnsureStreams(t.Context(), testStreams()))
	detach(t, fetchOne(t, s), due)
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
