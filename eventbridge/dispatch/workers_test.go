package dispatch

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// newTestWorkers returns workers whose jobs do nothing after run.
func newTestWorkers(run func(*job)) *workers {
	w := &workers{}
	w.run = func(j *job) {
		run(j)
		w.completing()
	}
	return w
}

// waiting returns how many workers wait for a job, once all goroutines rest.
func waiting(w *workers) int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.idle)
}

func TestAWorkerRunsOneJobAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		w := newTestWorkers(func(*job) { ran.Add(1) })
		for range 100 {
			w.start(&job{})
			require.Equal(t, 1, waiting(w))
		}
		require.Equal(t, int64(100), ran.Load())
		w.wait()
	})
}

func TestAJobThatEndsHandsItsWorkerToTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &workers{}
		left := 1000
		w.run = func(*job) {
			w.completing()
			if left > 0 {
				left-- // without a lock: there is one worker
				w.start(&job{})
			}
		}
		w.start(&job{})
		require.Equal(t, 1, waiting(w))
		require.Zero(t, left)
		w.wait()
	})
}

func TestThereAreAsManyWorkersAsJobsThatRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		var running atomic.Int64
		w := newTestWorkers(func(*job) {
			running.Add(1)
			<-goOn
		})
		for range 50 {
			w.start(&job{})
		}
		synctest.Wait()
		require.Equal(t, int64(50), running.Load(), "no job waits for another one")
		close(goOn)
		require.Equal(t, 50, waiting(w))
		w.wait()
		require.Zero(t, waiting(w))
	})
}

func TestWorkersThatAreNotNeededEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorkers(func(*job) { time.Sleep(time.Millisecond) })
		for range 50 {
			w.start(&job{})
		}
		for range 2000 { // one job at a time from now on
			w.start(&job{})
			time.Sleep(2 * time.Millisecond)
		}
		require.Equal(t, 1, waiting(w))
		time.Sleep(3 * workerIdle)
		require.Zero(t, waiting(w))
		w.mu.Lock()
		require.Nil(t, w.timer, "an idle dispatcher has neither a goroutine nor a timer")
		w.mu.Unlock()
		w.start(&job{})
		w.wait()
	})
}

func TestTheEndOfTheWorkersWaitsForTheirJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		w := newTestWorkers(func(*job) {
			time.Sleep(time.Hour)
			ran.Add(1)
		})
		for range 10 {
			w.start(&job{})
		}
		w.wait()
		require.Equal(t, int64(10), ran.Load())
	})
}

func TestNoJobIsLostBetweenWorkersThatComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int64
		w := newTestWorkers(func(*job) { ran.Add(1) })
		var starting sync.WaitGroup
		for sender := range 10 {
			starting.Go(func() {
				for i := range 100 {
					w.start(&job{})
					time.Sleep(time.Duration(sender*i) * workerIdle / 500)
				}
			})
		}
		starting.Wait()
		w.wait()
		require.Equal(t, int64(1000), ran.Load())
	})
}
