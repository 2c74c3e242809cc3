package timers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorkOnWhatIsDueTakesTurnsByNamespace(t *testing.T) {
	t.Parallel()
	c := newCrew()
	var order []string
	for range 1000 {
		c.do("hostile", func(context.Context) { order = append(order, "hostile") })
	}
	c.do("quiet", func(context.Context) { order = append(order, "quiet") })
	for range 3 {
		work, ok := c.next()
		require.True(t, ok)
		work(t.Context())
	}
	require.Equal(t, []string{"hostile", "quiet", "hostile"}, order)
}

func TestACrewEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newCrew()
	ctx, cancel := context.WithCancel(t.Context())
	c.do("shop", func(context.Context) { cancel() })
	c.run(ctx)
	require.ErrorIs(t, ctx.Err(), context.Canceled, "the work was done")
	c.do("shop", func(context.Context) { t.Error("work was done after the end") })
	_, ok := c.next()
	require.False(t, ok)
}

func TestWorkInProgressHasAMomentToFinishAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrew()
		ctx, cancel := context.WithCancel(t.Context())
		var ended time.Time
		c.do("shop", func(working context.Context) {
			ended = time.Now()
			cancel()
			<-working.Done()
		})
		c.run(ctx)
		require.Equal(t, finishing, time.Since(ended))
	})
}

func TestBridgesRankThemselvesAlikeAndDifferentlyForEachKey(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "b", "c"}
	bridges := map[string]*peers{}
	for _, id := range ids {
		bridges[id] = newPeers(id)
		for _, other := range ids {
			bridges[id].hear(other, []byte("{}"), someTime)
		}
	}
	firsts := map[string]int{}
	for _, key := range keys(300) {
		ranks := map[int]bool{}
		for id, p := range bridges {
			rank := int(p.patience(key) / stagger)
			ranks[rank] = true
			if rank == 0 {
				firsts[id]++
			}
		}
		require.Len(t, ranks, 3, "each has another rank")
	}
	for _, id := range ids {
		require.InDelta(t, 100, firsts[id], 40, "the first is another one for other keys")
	}
}

func TestASilentBridgeIsForgottenAndOneThatLeavesAtOnce(t *testing.T) {
	t.Parallel()
	p := newPeers("a")
	_, changed := p.hear("b", []byte("{}"), someTime)
	require.True(t, changed)
	_, changed = p.hear("b", []byte("{}"), someTime.Add(silence))
	require.False(t, changed)
	require.False(t, p.expire(someTime.Add(2*silence)))
	require.True(t, p.expire(someTime.Add(2*silence+1)))
	_, _ = p.hear("b", []byte("{}"), someTime)
	_, changed = p.hear("b", []byte(`{"leaving":true}`), someTime)
	require.True(t, changed)
	for _, key := range keys(10) {
		require.Zero(t, p.patience(key))
	}
}

func TestBeatsThatAreForgedTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	p := newPeers("a")
	for _, id := range keys(1000) {
		p.hear(id, []byte("{}"), someTime)
	}
	p.hear("x", []byte("no JSON"), someTime)
	require.Len(t, p.heard, maxPeers)
	require.Equal(t, lastRank*stagger, max(p.patience("k1"), p.patience("k2"), p.patience("k3"), p.patience("k4")), "an event is late by this at most")
}
