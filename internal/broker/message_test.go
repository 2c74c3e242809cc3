package broker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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
