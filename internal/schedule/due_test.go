package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

// hourly is due at each hour after the creation.
func hourly(missed v1alpha1.Missed) *v1alpha1.Schedule {
	return nightly(func(s *v1alpha1.Schedule) { s.Spec.Every, s.Spec.Missed = "1h", missed })
}

func hours(ticks []Tick) []int {
	found := []int{}
	for _, tick := range ticks {
		found = append(found, int(tick.Due.Sub(created)/time.Hour))
	}
	return found
}

func TestAPolicyDecidesWhichMissedEventsArePublished(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		missed   v1alpha1.Missed
		now      time.Duration
		want     []int
		left     int
		through  time.Duration
		carrying int
	}{
		"nothing is due":                    {v1alpha1.Missed{}, 30 * time.Minute, []int{}, 0, 0, 0},
		"one is due":                        {v1alpha1.Missed{}, time.Hour, []int{1}, 0, time.Hour, 0},
		"one of five":                       {v1alpha1.Missed{Policy: v1alpha1.MissedOne}, 5*time.Hour + time.Minute, []int{5}, 4, 5 * time.Hour, 4},
		"one of five, too late":             {v1alpha1.Missed{Policy: v1alpha1.MissedOne, Deadline: "1m"}, 5*time.Hour + 2*time.Minute, []int{}, 5, 5 * time.Hour, 0},
		"all of five":                       {v1alpha1.Missed{Policy: v1alpha1.MissedAll, Limit: 100}, 5 * time.Hour, []int{1, 2, 3, 4, 5}, 0, 5 * time.Hour, 0},
		"the last of all":                   {v1alpha1.Missed{Policy: v1alpha1.MissedAll, Limit: 2}, 5 * time.Hour, []int{4, 5}, 3, 5 * time.Hour, 3},
		"all, but not too late":             {v1alpha1.Missed{Policy: v1alpha1.MissedAll, Limit: 9, Deadline: "90m"}, 5 * time.Hour, []int{4, 5}, 3, 5 * time.Hour, 3},
		"none of five but the one in time":  {v1alpha1.Missed{Policy: v1alpha1.MissedSkip}, 5 * time.Hour, []int{5}, 4, 5 * time.Hour, 4},
		"none when the last one is too old": {v1alpha1.Missed{Policy: v1alpha1.MissedSkip}, 5*time.Hour + 61*time.Second, []int{}, 5, 5 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := planOf(t, hourly(c.missed)).Decide(created, created.Add(c.now))
			require.Equal(t, c.want, hours(got.Ticks))
			require.Equal(t, c.left, got.Missed)
			if c.through > 0 {
				require.Equal(t, created.Add(c.through), got.Through)
			} else {
				require.Zero(t, got.Through)
			}
			if len(got.Ticks) > 0 {
				require.Equal(t, c.carrying, got.Ticks[0].Missed)
			}
			require.True(t, got.Next.After(created.Add(c.now)))
		})
	}
}

func TestAnOutageOfYearsIsDecidedAtOnce(t *testing.T) {
	t.Parallel()
	everySecond := nightly(func(s *v1alpha1.Schedule) {
		s.Spec.Every, s.Spec.Missed = "1s", v1alpha1.Missed{Policy: v1alpha1.MissedAll, Limit: 3}
	})
	now := created.AddDate(20, 0, 0)
	got := planOf(t, everySecond).Decide(created, now)
	require.Len(t, got.Ticks, 3)
	require.Equal(t, now, got.Through)
	require.Equal(t, now.Add(time.Second), got.Next)
	require.Positive(t, got.Missed)
}

func TestJitterIsTheSameEverywhereAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	jittered := nightly(func(s *v1alpha1.Schedule) { s.Spec.Every, s.Spec.Jitter = "10s", "1h" })
	plan := planOf(t, jittered)
	delays := map[time.Duration]bool{}
	for last, count := created, 0; count < 50; count++ {
		decided := plan.Decide(last, last.Add(9*time.Second))
		due, _ := plan.Next(last)
		require.Equal(t, decided.Next, plan.at(due))
		delay := decided.Next.Sub(due)
		require.Less(t, delay, 5*time.Second, "half of the time to the next one")
		delays[delay] = true
		last = due
	}
	require.Greater(t, len(delays), 25)
	jittered.UID = "another"
	due, _ := plan.Next(created)
	require.NotEqual(t, plan.at(due), planOf(t, jittered).at(due))
}

func TestTheOldestSchedulesKeepTheShareOfTheirNamespace(t *testing.T) {
	t.Parallel()
	named := func(name string, age int, every v1alpha1.Duration) *v1alpha1.Schedule {
		return nightly(func(s *v1alpha1.Schedule) {
			s.Name, s.UID, s.Spec.Every = name, types.UID(name), every
			s.CreationTimestamp = metav1.NewTime(created.Add(time.Duration(-age) * time.Hour))
		})
	}
	fast, slow, young := named("fast", 3, "1s"), named("slow", 2, "1h"), named("young", 1, "1h")
	over := Share{Schedules: 2, PerMinute: 100}.Over([]*v1alpha1.Schedule{young, slow, fast})
	require.Len(t, over, 1)
	require.Contains(t, over["young"], "the namespace has 2 older Schedules, and may have 2")

	over = Share{Schedules: 9, PerMinute: 60}.Over([]*v1alpha1.Schedule{young, slow, fast})
	require.Len(t, over, 2)
	require.Contains(t, over["slow"], "publish up to 60 events a minute and this one 1, of 60 that the namespace may")

	fast.Spec.Paused = true
	require.Empty(t, Share{Schedules: 2, PerMinute: 60}.Over([]*v1alpha1.Schedule{young, slow, fast}), "a paused one counts nothing")
}
