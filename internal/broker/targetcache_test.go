package broker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

func TestARetryIsNotForwardedWithoutItsConsumer(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 2)
	s := f.source(t)
	for _, m := range fetch(t, s, 2) {
		require.NoError(t, m.Retry(t.Context(), 0))
	}
	retries := receive(t, NewSource(f.conn, RetryStream, levelOf(0).consumer(), types.NamespacedName{}, 2))
	first, second := fetchOne(t, retries), fetchOne(t, retries)
	to := newForwarder(f.conn, testStream)
	require.NoError(t, to.bringBack(t.Context(), first))
	require.Equal(t, 2, fetchOne(t, s).Attempt())
	s.cancel()
	require.NoError(t, await(t, s.ended))

	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.ErrorIs(t, to.bringBack(t.Context(), second), ErrConsumerNotFound, "it was there a moment ago")
	ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject, routing.RedeliverySubject("c1")}})
	require.NoError(t, to.bringBack(t.Context(), second))
	require.NoError(t, to.bringBack(t.Context(), second), "a repeat is stored once")
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 1})
}

func TestADeadLetterRedrivenWithoutItsConsumerIsRedrivenAgain(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject, routing.RedeliverySubject("c1")}}
	before, err := f.conn.redeliveryConsumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	publish := func(since time.Time) *jetstream.PubAck {
		message := nats.NewMsg(routing.RedeliverySubject("c1"))
		message.Header.Set(jetstream.MsgIDHeader, "letter")
		nameFor(message, since)
		ack, err := f.conn.js.PublishMsg(t.Context(), message)
		require.NoError(t, err)
		return ack
	}
	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, "c1"))
	publish(before)
	ensureConsumer(t, f.conn, consumer)
	require.True(t, publish(before).Duplicate, "the stream remembers the id of what it dropped")
	after, err := f.conn.redeliveryConsumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	require.False(t, publish(after).Duplicate)
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 1})
}

func TestConcurrentCallersShareAConsumerInspection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inspections atomic.Int64
		p := newTargetCache(func(context.Context, string) (redeliveryTarget, error) {
			n := inspections.Add(1)
			time.Sleep(100 * time.Millisecond)
			return redeliveryTarget{since: time.Unix(n, 0)}, nil
		})
		found := make(chan int64, 10)
		ask := func(how func(context.Context, string) (redeliveryTarget, error)) {
			go func() {
				at, err := how(t.Context(), "c1")
				if err == nil {
					found <- at.since.Unix()
				}
			}()
			synctest.Wait()
		}
		ask(p.refresh)
		for range 3 {
			ask(p.refresh) // one runs, which may have been answered already
		}
		require.EqualValues(t, 1, <-found)
		for range 3 {
			require.EqualValues(t, 2, <-found)
		}
		ask(p.cached)
		require.EqualValues(t, 2, <-found)
		time.Sleep(targetCacheTTL)
		ask(p.cached)
		require.EqualValues(t, 3, <-found)
		require.Empty(t, p.inspections)
	})
}
