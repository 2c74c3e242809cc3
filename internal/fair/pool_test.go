package fair

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAKeyTakesNoMoreOfAPoolThanItLeavesFree(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits Limits
		taken  map[string]int64 // of the pool, in advance
		units  int64
		want   int // number of times that "shop" acquires them
	}{
		"alone it gets half":                 {limits: Limits{Total: 10}, units: 1, want: 5},
		"of one unit it gets that one":       {limits: Limits{Total: 1}, units: 1, want: 1},
		"beside one other it gets a third":   {limits: Limits{Total: 9}, taken: map[string]int64{"other": 3}, units: 1, want: 3},
		"with nothing it gets the last unit": {limits: Limits{Total: 4}, taken: map[string]int64{"a": 1, "b": 1, "c": 1}, units: 1, want: 1},
		"with nothing it gets all at once":   {limits: Limits{Total: 10}, units: 10, want: 1},
		"it gets nothing from a full pool":   {limits: Limits{Total: 10}, taken: map[string]int64{"a": 10}, units: 1},
		"it gets no more than the total":     {limits: Limits{Total: 10}, units: 11},
		"a configured share is exact":        {limits: Limits{Total: 10, PerKey: 8}, units: 1, want: 8},
		"a share of all is no bound":         {limits: Limits{Total: 3, PerKey: 3}, units: 1, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewPool(tc.limits)
			for key, units := range tc.taken {
				require.True(t, p.TryAcquire(key, units))
			}
			got := 0
			for p.TryAcquire("shop", tc.units) {
				got++
			}
			require.Equal(t, tc.want, got)
			require.Equal(t, int64(tc.want)*tc.units, p.Held("shop"))
		})
	}
}

func TestAPoolNotifiesRequestsInTurnOfTheirKeys(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 1, Waiting: 100})
	require.True(t, p.TryAcquire("busy", 1))
	var order []string
	for _, key := range []string{"hostile", "hostile", "hostile", "shop", "hostile", "blog", "shop"} {
		_, err := p.Request(key, 1, func() { order = append(order, key) })
		require.NoError(t, err)
	}
	p.Release("busy", 1)
	for range 6 {
		p.Release(order[len(order)-1], 1)
	}
	require.Equal(t, []string{"hostile", "shop", "blog", "hostile", "shop", "hostile", "hostile"}, order)
}

func TestTheKeyThatWasChargedLeastComesFirst(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 1, Waiting: 100})
	require.True(t, p.TryAcquire("costly", 1))
	var order []string
	for _, key := range []string{"costly", "costly", "light", "light", "light"} {
		_, err := p.Request(key, 1, func() { order = append(order, key) })
		require.NoError(t, err)
	}
	p.Charge("costly", 100)
	p.Release("costly", 1)
	for len(order) < 5 {
		last := order[len(order)-1]
		p.Charge(last, map[string]int64{"costly": 100, "light": 40}[last])
		p.Release(last, 1)
	}
	require.Equal(t, []string{"light", "light", "light", "costly", "costly"}, order)
}

func TestKeyThatWasIdleGainsNoAdvantage(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 1, Waiting: 100})
	take := func(key string, cost int64) {
		require.True(t, p.TryAcquire(key, 1))
		p.Charge(key, cost)
	}
	take("old", 1000)
	var order []string
	ask := func(key string) {
		_, err := p.Request(key, 1, func() { order = append(order, key) })
		require.NoError(t, err)
	}
	ask("old")
	ask("old")
	p.Release("old", 1) // acquired again at once, with a charge of 1000
	ask("fresh")
	ask("fresh")
	p.Charge("old", 1)
	p.Release("old", 1)
	p.Charge("fresh", 10)
	p.Release("fresh", 1)
	require.Equal(t, []string{"old", "fresh", "old"}, order, "fresh began at what old had been charged")
}

func TestKeyOverItsShareDelaysNoOther(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 4, Waiting: 100})
	var order []string
	ask := func(key string) {
		_, err := p.Request(key, 1, func() { order = append(order, key) })
		require.NoError(t, err)
	}
	for range 10 {
		ask("hostile")
	}
	ask("shop")
	require.Equal(t, []string{"hostile", "hostile", "shop"}, order)
	used, waiting := p.Stats()
	require.Equal(t, []int64{3, 8}, []int64{used, waiting})
}

func TestFreedUnitsAreReservedForALargeRequestInTurn(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 4, Waiting: 100})
	for _, key := range []string{"a", "b", "c"} {
		require.True(t, p.TryAcquire(key, 1))
	}
	granted := false
	_, err := p.Request("large", 3, func() { granted = true })
	require.NoError(t, err)
	require.False(t, p.TryAcquire("d", 1))
	p.Release("a", 1)
	require.False(t, granted)
	require.False(t, p.TryAcquire("a", 1))
	p.Release("b", 1)
	require.True(t, granted)
}

func TestQueueOfAPoolIsSharedLikeItsUnits(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 1, Waiting: 4})
	require.True(t, p.TryAcquire("busy", 1))
	ask := func(key string) error {
		_, err := p.Request(key, 1, func() {})
		return err
	}
	require.NoError(t, ask("hostile"))
	require.NoError(t, ask("hostile"))
	require.ErrorIs(t, ask("hostile"), ErrFull)
	require.NoError(t, ask("shop"))
	require.ErrorIs(t, ask("shop"), ErrFull)
	require.NoError(t, ask("blog"))
	require.ErrorIs(t, ask("late"), ErrFull)
	_, err := NewPool(Limits{Total: 1, Waiting: 1}).Request("shop", 2, func() {})
	require.ErrorIs(t, err, ErrFull, "a request over its share could never be granted")
}

func TestClosedRequestLeavesTheQueueOrReleasesItsUnits(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 1, Waiting: 4})
	granted := false
	first, err := p.Request("a", 1, func() { granted = true })
	require.NoError(t, err)
	require.True(t, granted)
	second, err := p.Request("b", 1, func() { t.Error("it was closed before") })
	require.NoError(t, err)
	granted = false
	third, err := p.Request("b", 1, func() { granted = true })
	require.NoError(t, err)
	second.Close()
	second.Close()
	require.False(t, granted)
	first.Close()
	first.Close()
	require.True(t, granted)
	third.Close()
	used, waiting := p.Stats()
	require.Zero(t, used+waiting)
	require.Empty(t, p.keys, "keys without units must be forgotten")
}

func TestAcquireWaitsForUnitsOrItsCallersStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, stop := NewPool(Limits{Total: 1, Waiting: 4}), make(chan struct{})
		require.NoError(t, p.Acquire(stop, "a", 1))
		outcomes := make(chan error, 2)
		go func() { outcomes <- p.Acquire(nil, "b", 1) }()
		synctest.Wait()
		go func() { outcomes <- p.Acquire(stop, "c", 1) }()
		synctest.Wait()
		close(stop)
		require.ErrorIs(t, <-outcomes, ErrStopped)
		p.Release("a", 1)
		require.NoError(t, <-outcomes)
		p.Release("b", 1)
		require.Empty(t, p.keys)
	})
}

func TestPoolRemembersABoundedNumberOfKeys(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 10, PerKey: 10})
	require.True(t, p.TryAcquire("busy", 1))
	key := make([]byte, 2)
	for i := range 3 * mostKeys {
		key[0], key[1] = byte(i), byte(i>>8)
		require.True(t, p.TryAcquire(string(key), 1))
		p.Charge(string(key), 1)
		p.Release(string(key), 1)
	}
	require.LessOrEqual(t, len(p.keys), mostKeys+1)
}

func TestConcurrentCallersNeverOverdrawAPool(t *testing.T) {
	t.Parallel()
	p := NewPool(Limits{Total: 4, Waiting: 1000})
	var mu sync.Mutex
	running, most := 0, 0
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			key := string(rune('a' + i%8))
			for range 50 {
				if p.Acquire(nil, key, 1) != nil {
					continue
				}
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				mu.Lock()
				running--
				mu.Unlock()
				p.Charge(key, 1)
				p.Release(key, 1)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, most, 4)
	used, waiting := p.Stats()
	require.Zero(t, used+waiting)
}

func TestKeysOfAQueueTakeTurnsAndTheirItemsComeInOrder(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, item := range []string{"a1", "a2", "a3", "b1", "a4", "c1", "b2"} {
		q.Push(item[:1], item)
	}
	want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}
	require.Equal(t, want, slices.Collect(q.All()))
	require.Equal(t, 7, q.Len())
	require.Equal(t, want, popAll(&q))
	require.Zero(t, q.Len())
	require.Empty(t, q.items, "keys without items must be dropped")
}

func TestReturningKeyGoesToTheEndOfTheQueue(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	q.Push("a", "a1")
	q.Push("b", "b1")
	item, ok := q.Pop()
	require.True(t, ok)
	require.Equal(t, "a1", item)
	q.Push("a", "a2")
	require.Equal(t, []string{"b1", "a2"}, popAll(&q))
}

func TestSkippedKeyKeepsItsTurn(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, item := range []string{"a1", "b1", "b2"} {
		q.Push(item[:1], item)
	}
	item, ok := q.PopFrom(func(key string) bool { return key != "a" })
	require.True(t, ok)
	require.Equal(t, "b1", item)
	_, ok = q.PopFrom(func(string) bool { return false })
	require.False(t, ok)
	require.Equal(t, []string{"a1", "b2"}, popAll(&q))
}

func TestItemIsRemovedAtAnyPosition(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, item := range []string{"a1", "b1", "b2"} {
		q.Push(item[:1], item)
	}
	is := func(want string) func(string) bool { return func(item string) bool { return item == want } }
	require.True(t, q.Remove("a", is("a1")))
	require.False(t, q.Remove("a", is("a1")))
	require.True(t, q.Remove("b", is("b2")))
	require.Equal(t, []string{"b1"}, popAll(&q))
}

func popAll(q *Queue[string]) (items []string) {
	for item, ok := q.Pop(); ok; item, ok = q.Pop() {
		items = append(items, item)
	}
	return items
}
