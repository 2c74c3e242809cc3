package broker

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/never"
)

// limitedBudget is a budget of so many bytes.
type limitedBudget struct {
	size       int64
	used, peak atomic.Int64
	freed      chan struct{}
}

func newLimitedBudget(size int64) *limitedBudget {
	return &limitedBudget{size: size, freed: make(chan struct{}, 1)}
}

func (n *limitedBudget) Acquire(least, most int64) int64 {
	bytes := min(most, n.size-n.used.Load())
	if bytes < least {
		return 0
	}
	n.Overdraw(bytes)
	return bytes
}

func (n *limitedBudget) Overdraw(bytes int64) bool {
	n.peak.Store(max(n.used.Add(bytes), n.peak.Load()))
	return true
}

func (n *limitedBudget) Release(bytes int64) {
	n.used.Add(-bytes)
	select {
	case n.freed <- struct{}{}:
	default:
	}
}

func (n *limitedBudget) Freed() <-chan struct{} { return n.freed }

func (f *feed) publishLarge(t *testing.T, count, size int) {
	t.Helper()
	for range count {
		e := &cloudevent.Event{ID: strconv.Itoa(f.next), Source: "shop", Type: "order.received.v1", DataContentType: "text/plain"}
		e.Data = []byte(strings.Repeat("x", size))
		require.NoError(t, f.Publish(t.Context(), e))
		f.next++
	}
}

// 200 events of 60 KiB, of a Subscription that asks for as many as there are and settles none.
func TestASourceStaysWithinItsMemoryBudget(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.MaxAckPending = 1_000_000 })
	f.publishLarge(t, 200, 60<<10)
	budget := newLimitedBudget(4 << 20)
	r := receive(t, NewSource(f.conn, testStream, "c1", subscription(), 1_000_000).Within(budget))
	fits := int(budget.size/MessageMemory(60<<10)) - 1 // one may be asked for as if it were as large as can be
	held := fetch(t, r, fits/2)
	never.Happens(t, func() bool { return len(r.arrived) > fits }, 300*time.Millisecond, 10*time.Millisecond)
	for range 200 - len(held) {
		m := held[0]
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
		held = append(held[1:], fetchOne(t, r))
	}
	require.LessOrEqual(t, budget.peak.Load(), budget.size)
	for _, m := range held {
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
	}
	r.cancel()
	require.NoError(t, <-r.ended)
	require.Zero(t, budget.used.Load(), "all is given back")
}

func TestEventsOfAnySizeFitABudgetThatIsBarelyEnough(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	for i, size := range []int{1, 100 << 10, 10, 600 << 10, 1, 1, 300 << 10, 20 << 10} {
		f.publishLarge(t, 1, size)
		require.Equal(t, i+1, f.next)
	}
	budget := newLimitedBudget(MessageMemory(1<<20 + sizeSlack))
	r := receive(t, NewSource(f.conn, testStream, "c1", subscription(), 10).Within(budget))
	for i := range f.next {
		m := fetchOne(t, r)
		require.Equal(t, strconv.Itoa(i), id(t, m))
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
	}
	require.LessOrEqual(t, budget.peak.Load(), budget.size)
}

func TestAnIdleSourceReservesLittleMemory(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	budget := newLimitedBudget(64 << 20)
	r := receive(t, newSource(f.conn).Within(budget))
	f.publish(t, 500)
	for range 500 {
		m := fetchOne(t, r)
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
	}
	require.Eventually(t, func() bool { return budget.used.Load() <= IdleMemory }, testTimeout, 10*time.Millisecond)
}
