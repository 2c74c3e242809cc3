package eventbridge

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// neverFilter is the stop of a caller that waits for as long as it takes.
var neverFilter <-chan struct{}

func working(d time.Duration) func() bool {
	return func() bool {
		time.Sleep(d)
		return true
	}
}

func TestNoMoreWorkRunsThanHalfOfTheProcessors(t *testing.T) {
	t.Parallel()
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 16: 8} {
		synctest.Test(t, func(t *testing.T) {
			pool := newPool(processors)
			var mu sync.Mutex
			running, most := 0, 0
			var all sync.WaitGroup
			for range 50 {
				lane := pool.Lane("blue")
				all.Go(func() {
					defer lane.Close()
					require.NoError(t, lane.Run(neverFilter, func() bool {
						mu.Lock()
						running++
						most = max(most, running)
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						running--
						mu.Unlock()
						return true
					}))
				})
			}
			all.Wait()
			require.Equal(t, want, most)
		})
	}
}

func TestASingleProcessorRestsAsLongAsItWorked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, began := newPool(1), time.Now()
		for range 10 {
			lane := pool.Lane("blue")
			require.NoError(t, lane.Run(neverFilter, working(10*time.Millisecond)))
			lane.Close()
		}
		require.Equal(t, 190*time.Millisecond, time.Since(began))
	})
}

func TestALaneUsesAQuarterOfAProcessorOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lane := newPool(16).Lane("blue")
		defer lane.Close()
		began := time.Now()
		for time.Since(began) < burst {
			require.NoError(t, lane.Run(neverFilter, working(10*time.Millisecond)))
		}
		require.Equal(t, burst, time.Since(began), "a burst is done at once")
		done := 0
		for began = time.Now(); time.Since(began) < time.Minute; done++ {
			require.NoError(t, lane.Run(neverFilter, working(10*time.Millisecond)))
		}
		require.InDelta(t, int(time.Minute/share/(10*time.Millisecond)), done, 10)
	})
}

func TestATenantWithAThousandLanesGetsNoMoreThanOneWithOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, stop := newPool(2), make(chan struct{})
		var all sync.WaitGroup
		for range 1000 {
			hostile := pool.Lane("red")
			all.Go(func() {
				defer hostile.Close()
				for hostile.Run(stop, working(100*time.Millisecond)) == nil {
				}
			})
		}
		synctest.Wait()
		honest := pool.Lane("blue")
		for range 20 {
			began := time.Now()
			require.NoError(t, honest.Run(neverFilter, working(time.Millisecond)))
			require.LessOrEqual(t, time.Since(began), 101*time.Millisecond, "it waits for one piece of work of the others at most")
		}
		honest.Close()
		close(stop)
		all.Wait()
		require.Empty(t, pool.tenants, "who has no lane is forgotten")
		requireAllFree(t, pool)
	})
}

func TestLanesOfATenantTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, stop := newPool(2), make(chan struct{})
		var mu sync.Mutex
		done, end := map[*Lane]int{}, time.Now().Add(time.Second)
		var all sync.WaitGroup
		for range 10 {
			lane := pool.Lane("blue")
			for range 5 {
				all.Go(func() {
					for lane.Run(stop, working(time.Millisecond)) == nil {
						mu.Lock()
						if time.Now().Before(end) { // who may stop may also go on once more
							done[lane]++
						}
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(time.Until(end))
		close(stop)
		all.Wait()
		require.Len(t, done, 10)
		for _, n := range done {
			require.InDelta(t, 100, n, 2)
		}
	})
}

func TestWorkIsDoneInPlaceOnceItWasLightForAWhile(t *testing.T) {
	t.Parallel()
	lane := newPool(4).Lane("blue")
	defer lane.Close()
	for range trusted {
		require.False(t, lane.Enter())
		require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
	}
	require.True(t, lane.Enter())
	lane.Leave(false)
	require.NoError(t, lane.Run(neverFilter, func() bool { return true }))
	require.False(t, lane.Enter(), "it was heavy meanwhile")
}

func TestHeavyWorkSuspendsInPlaceWorkOfItsTenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(4)
		one, another, other := pool.Lane("red"), pool.Lane("red"), pool.Lane("blue")
		for range trusted {
			for _, lane := range []*Lane{one, another, other} {
				require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
			}
		}
		require.True(t, one.Enter())
		one.Leave(true)
		require.False(t, another.Enter())
		require.True(t, other.Enter(), "another tenant has nothing to do with it")
		other.Leave(false)
		time.Sleep(suspension)
		synctest.Wait()
		require.True(t, another.Enter())
		another.Leave(false)
		require.False(t, one.Enter())
	})
}

func TestLightWorkOfATenantAtATimeIsBounded(t *testing.T) {
	t.Parallel()
	pool := newPool(2)
	lane := pool.Lane("blue")
	for range trusted {
		require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
	}
	for range 4 {
		require.True(t, lane.Enter())
	}
	require.False(t, lane.Enter())
	lane.Leave(false)
	require.True(t, lane.Enter())
}

func TestStoppedCallersDoNotWaitForAPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := newPool(2)
		busy, waits := pool.Lane("red"), pool.Lane("blue")
		var all sync.WaitGroup
		all.Go(func() { require.NoError(t, busy.Run(neverFilter, working(time.Second))) })
		synctest.Wait()
		stop := make(chan struct{})
		for range 2 { // one has the slot of the lane, the other waits for that
			all.Go(func() {
				require.ErrorIs(t, waits.Run(stop, func() bool { panic("it was stopped before") }), ErrStopped)
			})
		}
		synctest.Wait()
		began := time.Now()
		close(stop)
		synctest.Wait()
		require.Zero(t, time.Since(began))
		all.Wait()
		all.Go(func() { require.ErrorIs(t, busy.Run(stop, working(time.Second)), ErrStopped, "nor for its budget") })
		all.Wait()
		requireAllFree(t, pool)
	})
}

func TestAPanicReleasesTheSlotAndThePermit(t *testing.T) {
	t.Parallel()
	pool := newPool(4)
	lane := pool.Lane("blue")
	for range 3 {
		require.Panics(t, func() { _ = lane.Run(neverFilter, func() bool { panic("a bug") }) })
	}
	require.NoError(t, lane.Run(neverFilter, func() bool { return false }))
	requireAllFree(t, pool)
}

func requireAllFree(t *testing.T, pool *FilterPool) {
	t.Helper()
	used, waiting := pool.permits.Stats()
	require.Zero(t, used+waiting)
}
