package broker

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/never"
)

func orderedFeed(t *testing.T, ackWait time.Duration) *feed {
	t.Helper()
	return newFeed(t, func(c *Consumer) { c.Ordered, c.AckWait = true, ackWait })
}

func subjectsOfC1() []string { return []string{testSubject, routing.RedeliverySubject("c1")} }

// orderedSource receives over a connection of its own, as each replica has one.
func (f *feed) orderedSource(t *testing.T) *receiver {
	t.Helper()
	conn := connect(t, f.server.URL())
	awaitConnected(t, conn)
	return receive(t, NewOrderedSource(conn, testStream, "c1", subscription(), 10))
}

// insist receives again whenever receiving ends.
func insist(t *testing.T, conn *Conn) *receiver {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &receiver{arrived: make(chan *Message, 100), ended: make(chan error), cancel: cancel}
	source := NewOrderedSource(conn, testStream, "c1", subscription(), 10)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_ = source.Receive(ctx, nil, func(m *Message) { r.arrived <- m })
			pause(ctx, nil)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return r
}

func ids(t *testing.T, messages []*Message) []string {
	t.Helper()
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = id(t, m)
	}
	return all
}

// pin is the id of the pinned source, empty without one.
func (f *feed) pin(t *testing.T) string {
	t.Helper()
	info, err := f.conn.js.Consumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	for _, group := range info.CachedInfo().PriorityGroups {
		return group.PinnedClientID
	}
	return ""
}

func TestAnOrderedConsumerHasOneSourceAtATime(t *testing.T) {
	t.Parallel()
	f := orderedFeed(t, time.Hour)
	a := f.orderedSource(t)
	f.publish(t, 1)
	require.Equal(t, "0", id(t, fetchOne(t, a)))
	b := f.orderedSource(t)
	f.publish(t, 600) // several requests
	require.Len(t, fetch(t, a, 600), 600)
	require.Empty(t, b.arrived)
}

func TestASourceThatTakesOverWaitsForWhatTheOneBeforeHolds(t *testing.T) {
	t.Parallel()
	f := orderedFeed(t, time.Hour) // so that no pin expires and nothing comes back by itself
	a := f.orderedSource(t)
	f.publish(t, 3)
	held := fetch(t, a, 3)
	first := f.pin(t)
	a.cancel()
	require.NoError(t, await(t, a.ended))

	var settled atomic.Bool
	var early atomic.Int32
	working, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	arrived := make(chan *Message, 10)
	running.Go(func() {
		source := NewOrderedSource(f.conn, testStream, "c1", subscription(), 10)
		_ = source.Receive(working, nil, func(m *Message) {
			if !settled.Load() {
				early.Add(1)
			}
			arrived <- m
		})
	})
	f.publish(t, 3)
	require.Eventually(t, func() bool { return f.pin(t) != "" && f.pin(t) != first }, testTimeout, moment)
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 6})
	require.NoError(t, held[0].Ack(t.Context()))
	require.NoError(t, held[2].Return(t.Context(), 0))
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 5})
	time.Sleep(100 * time.Millisecond) // for the mistake to happen
	settled.Store(true)
	require.NoError(t, held[1].Return(t.Context(), 0))
	var got []*Message
	for range 5 {
		got = append(got, await(t, arrived))
	}
	cancel()
	running.Wait()
	require.Equal(t, []string{"1", "2", "3", "4", "5"}, ids(t, got), "in the order of the stream, not of their return")
	require.Zero(t, early.Load())
	require.Empty(t, got[0].raw.Header.Get(headerPin), "it is no part of the event")
}

// The calls of the owner before hang, and its successor has no memory to wait with.
func TestASourceWithoutMemoryKeepsLittleMoreThanEarlierOwnersHeld(t *testing.T) {
	t.Parallel()
	f := orderedFeed(t, time.Hour)
	const size = 60 << 10
	f.publishLarge(t, 100, size)
	a := receive(t, NewOrderedSource(f.conn, testStream, "c1", subscription(), 1000).Within(newLimitedBudget(4*MessageMemory(size))))
	held := fetch(t, a, 3)
	a.cancel()
	require.NoError(t, await(t, a.ended))
	for len(a.arrived) > 0 {
		held = append(held, <-a.arrived)
	}
	require.LessOrEqual(t, len(held), 5, "it had no memory for more")

	budget := newLimitedBudget(0)
	b := receive(t, NewOrderedSource(f.conn, testStream, "c1", subscription(), 1000).Within(budget))
	require.Eventually(t, func() bool { return budget.used.Load() >= MessageMemory(size) }, testTimeout, moment, "it pulls")
	never.Happens(t, func() bool { return budget.peak.Load() > 4*MessageMemory(size) }, 500*time.Millisecond, moment)
	require.Empty(t, b.arrived, "the calls of the owner before still run")
	for _, m := range held {
		require.NoError(t, m.Ack(t.Context()))
	}
	require.Equal(t, strconv.Itoa(len(held)), id(t, fetchOne(t, b)), "what it has pulled, when nothing else is outstanding")
}

func TestASourceWithoutMemoryTakesWhatEarlierOwnersReturn(t *testing.T) {
	t.Parallel()
	f := orderedFeed(t, time.Hour)
	f.publishLarge(t, 5, 60<<10)
	a := f.orderedSource(t)
	held := fetch(t, a, 5)
	a.cancel()
	require.NoError(t, await(t, a.ended))
	for i := range held {
		require.NoError(t, held[len(held)-1-i].Return(t.Context(), 0))
	}
	b := receive(t, NewOrderedSource(f.conn, testStream, "c1", subscription(), 1000).Within(newLimitedBudget(0)))
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, ids(t, fetch(t, b, 5)), "in the order of the stream")
}

func TestASourceThatDiedIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	f := orderedFeed(t, 2*time.Second)
	died := connect(t, f.server.URL())
	awaitConnected(t, died)
	a := insist(t, died)
	f.publish(t, 4)
	fetch(t, a, 4)
	died.nc.Close()
	b := insist(t, f.conn)
	f.publish(t, 2)
	var got []string // each for the first time: what is not settled comes again
	for len(got) < 6 {
		if next := id(t, fetchOne(t, b)); !slices.Contains(got, next) {
			got = append(got, next)
		}
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5"}, got)
}

func TestASourceThatLostOwnershipReturns(t *testing.T) {
	t.Parallel()
	f := orderedFeed(t, time.Hour)
	source := NewOrderedSource(f.conn, testStream, "c1", subscription(), 10)
	a := receive(t, source)
	f.publish(t, 1)
	held := fetchOne(t, a)
	b := f.orderedSource(t)
	require.Eventually(t, func() bool { return waiting(t, f.conn) > 1 }, testTimeout, moment, "the other one pulls")
	pin := f.pin(t)
	source.unpin(pin) // as the server does when a source was silent for too long
	f.publish(t, 1)
	require.NoError(t, await(t, a.ended), "it has lost the consumer")
	require.NoError(t, held.Return(t.Context(), 0))
	require.Equal(t, []string{"0", "1"}, ids(t, fetch(t, b, 2)))
}

func TestAnOrderedSourceWaitsForItsConsumer(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 2)
	source := NewOrderedSource(f.conn, testStream, "c1", subscription(), 10)
	never := func(*Message) { t.Error("a message of a consumer that is not ordered") }
	require.ErrorIs(t, source.Receive(t.Context(), nil, never), ErrNotOrdered)

	plain := receive(t, newSource(f.conn))
	held := fetch(t, plain, 2)
	plain.cancel()
	require.NoError(t, await(t, plain.ended))
	ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: subjectsOfC1(), Ordered: true})
	r := receive(t, source)
	f.publish(t, 1)
	require.NoError(t, held[1].Return(t.Context(), 0))
	require.NoError(t, held[0].Return(t.Context(), 0))
	require.Equal(t, []string{"0", "1", "2"}, ids(t, fetch(t, r, 3)))
}
