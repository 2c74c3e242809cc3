package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// watched are calls of which those are detached that agree.
type watched struct {
	*unanswered

	tried []*job
}

func watch(most int, agree func(*job) bool) *watched {
	w := &watched{}
	w.unanswered = &unanswered{after: time.Minute, most: most, detach: func(j *job) bool {
		w.mu.Lock()
		w.tried = append(w.tried, j)
		w.mu.Unlock()
		return agree(j)
	}}
	return w
}

// state is which calls were detached or tried to be, in their order, how many are now, and that no call is listed.
func (w *watched) state() (tried []*job, now int, idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tried), w.detached, !w.armed && w.first == nil
}

func (w *watched) triedAre(t *testing.T, want ...*job) {
	t.Helper()
	tried, _, _ := w.state()
	require.Equal(t, want, tried)
}

func always(*job) bool { return true }

func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestUnansweredCallsAreDetachedWhenDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := watch(10, always)
		first, short, second := &job{attempt: 1, limit: 10}, &job{attempt: 2, limit: 10}, &job{attempt: 3, limit: 10}
		u.begin(first)
		u.begin(short)
		advance(10 * time.Second)
		u.begin(second)
		u.end(short)
		advance(49 * time.Second)
		u.triedAre(t)
		advance(time.Second)
		u.triedAre(t, first)
		u.end(first)
		advance(10 * time.Second)
		u.triedAre(t, first, second)
		u.end(second)
		advance(time.Hour)
		u.triedAre(t, first, second)
		_, _, idle := u.state()
		require.True(t, idle, "without calls no timer runs")
		u.begin(short)
		u.stop()
	})
}

func TestDetachedCallsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := watch(2, always)
		jobs := make([]*job, 4)
		for i := range jobs {
			jobs[i] = &job{attempt: i, limit: 2}
			u.begin(jobs[i])
			time.Sleep(time.Second)
		}
		advance(time.Hour)
		u.triedAre(t, jobs[:2]...)
		u.end(jobs[0])
		u.free()
		synctest.Wait()
		u.triedAre(t, jobs[:3]...) // the next one, and at once
		u.end(jobs[3])
		u.end(jobs[1])
		u.free()
		advance(time.Hour)
		u.triedAre(t, jobs[:3]...)
		u.stop()
	})
}

func TestFewerSlotsAreHeldForAShorterTime(t *testing.T) {
	t.Parallel()
	u := &unanswered{after: time.Minute, most: 10}
	require.Equal(t, time.Minute, u.hold(10))
	require.Equal(t, 6*time.Second, u.hold(1))
	u.most = 1000
	require.Equal(t, leastDetach, u.hold(1))
}

func TestACallThatCannotBeDetachedIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		u := watch(1, func(*job) bool { tries++; return tries == 3 })
		j := &job{limit: 1}
		u.begin(j)
		advance(2*time.Minute + time.Second)
		_, now, _ := u.state()
		require.Zero(t, now)
		u.triedAre(t, j, j)
		advance(time.Hour)
		u.triedAre(t, j, j, j)
		_, now, _ = u.state()
		require.Equal(t, 1, now)
		u.end(j)
		u.free()
	})
}

// What is settled meanwhile would be settled twice.
func TestEndOfACallWaitsForItsDetaching(t *testing.T) {
	t.Parallel()
	for name, could := range map[string]bool{"that was": true, "that was not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stored := make(chan struct{})
				u := watch(1, func(*job) bool { <-stored; return could })
				j, ended := &job{limit: 1}, make(chan struct{})
				u.begin(j)
				advance(time.Minute)
				go func() {
					defer close(ended)
					u.end(j)
				}()
				synctest.Wait()
				require.False(t, isClosed(ended))
				close(stored)
				<-ended
				_, now, idle := u.state()
				require.True(t, idle, "it is not tried again")
				require.Equal(t, could, now == 1)
			})
		})
	}
}

func TestACallIsDetachedAfterAQuarterOfItsTimeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options     Options
		maxInFlight int
		want        time.Duration
	}{
		"a quarter":                          {Options{Timeout: 190 * time.Second}, 10, 47500 * time.Millisecond},
		"a second at least":                  {Options{Timeout: 2 * time.Second}, 10, time.Second},
		"none that ends before":              {Options{Timeout: time.Second}, 10, 0},
		"none without a timeout":             {Options{}, 10, 0},
		"none of those that come one by one": {Options{Timeout: time.Minute}, 1, 0},
		"none of those in order":             {Options{Timeout: time.Minute, OrderedBy: "customer"}, 10, 0},
		"none of dead letters":               {Options{Timeout: time.Minute, Endless: true}, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, detachAfter(tc.options, tc.maxInFlight))
		})
	}
}

func TestADetachedCallFreesItsSlotInTheScheduler(t *testing.T) {
	t.Parallel()
	d := newScheduler(1, 0, nil)
	var started []*job
	d.start = func(j *job) { started = append(started, j) }
	hanging, next, last := &job{}, &job{}, &job{}
	for _, j := range []*job{hanging, next, last} {
		require.True(t, d.add(j))
	}
	d.detach(hanging)
	require.Equal(t, []*job{hanging, next}, started)
	require.Equal(t, 1, hanging.limit)
	d.done(hanging, delivered, false, 0)
	require.Equal(t, []*job{hanging, next}, started, "it had no slot to free any more")
	d.done(next, delivered, false, 0)
	require.Equal(t, []*job{hanging, next, last}, started)
	require.Equal(t, 1, d.running)
}

func TestATimeoutOfADetachedCallDoesNotCountAgainstAnAnsweringSink(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"that answers": true, "that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const calls = 20
			d := newScheduler(calls, 0, nil)
			d.start = func(*job) {}
			jobs := make([]*job, calls)
			for i := range jobs {
				jobs[i] = &job{}
				d.add(jobs[i])
				d.detach(jobs[i])
			}
			if answers {
				other := &job{}
				d.add(other)
				d.done(other, delivered, false, 0)
			}
			for _, j := range jobs {
				d.done(j, strained, false, 0)
			}
			require.Equal(t, answers, d.window.limit == calls)
		})
	}
}
