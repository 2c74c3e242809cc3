package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// watch makes calls that are looked after, of which those are detached that agree.
func watch(most int, agree func(*job) bool) (u *unanswered, detached *[]*job) {
	detached = &[]*job{}
	u = &unanswered{after: time.Minute, most: most}
	u.detach = func(j *job) bool {
		u.mu.Lock()
		*detached = append(*detached, j)
		u.mu.Unlock()
		return agree(j)
	}
	return u, detached
}

func always(*job) bool { return true }

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestCallsWithoutAnAnswerAreDetachedWhenTheirTimeHasCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, detached := watch(10, always)
		first, short, second := &job{attempt: 1}, &job{attempt: 2}, &job{attempt: 3}
		u.begin(first)
		u.begin(short)
		pass(10 * time.Second)
		u.begin(second)
		u.end(short)
		pass(49 * time.Second)
		require.Empty(t, *detached)
		pass(time.Second)
		require.Equal(t, []*job{first}, *detached)
		u.end(first)
		pass(10 * time.Second)
		require.Equal(t, []*job{first, second}, *detached)
		u.end(second)
		pass(time.Hour)
		require.Len(t, *detached, 2)
		require.False(t, u.armed, "without calls there is nothing to look after")
		u.begin(short)
		u.stop()
	})
}

func TestNoMoreCallsAreDetachedThanThereMayBe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u, detached := watch(2, always)
		jobs := make([]*job, 4)
		for i := range jobs {
			jobs[i] = &job{attempt: i}
			u.begin(jobs[i])
			time.Sleep(time.Second)
		}
		pass(time.Hour)
		require.Equal(t, jobs[:2], *detached)
		u.end(jobs[0])
		u.free()
		synctest.Wait()
		require.Equal(t, jobs[:3], *detached, "the next one, and at once")
		u.end(jobs[3])
		u.end(jobs[1])
		u.free()
		pass(time.Hour)
		require.Len(t, *detached, 3)
		u.stop()
	})
}

func TestACallThatCannotBeDetachedIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		u, detached := watch(1, func(*job) bool { tries++; return tries == 3 })
		j := &job{}
		u.begin(j)
		pass(2*time.Minute + time.Second)
		require.Len(t, *detached, 2)
		require.Zero(t, u.detached)
		pass(time.Hour)
		require.Len(t, *detached, 3)
		require.Equal(t, 1, u.detached)
		u.end(j)
		u.free()
	})
}

// What is settled meanwhile would be settled twice.
func TestTheEndOfACallWaitsForItsMessageToBeDetached(t *testing.T) {
	t.Parallel()
	for name, could := range map[string]bool{"that was": true, "that was not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stored := make(chan struct{})
				u, _ := watch(1, func(*job) bool { <-stored; return could })
				j, ended := &job{}, false
				u.begin(j)
				pass(time.Minute)
				go func() {
					u.end(j)
					ended = true
				}()
				synctest.Wait()
				require.False(t, ended)
				close(stored)
				synctest.Wait()
				require.True(t, ended)
				require.Nil(t, u.first, "it is not tried again")
				require.Equal(t, could, u.detached == 1)
			})
		})
	}
}
