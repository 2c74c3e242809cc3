package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/kedarules"
)

func within(low, high int, cooldown, stabilization time.Duration) bounds {
	return bounds{Bounds: kedarules.Bounds{Min: low, Max: high, Cooldown: cooldown}, stabilization: stabilization}
}

func TestReplicasFollowBacklogPushesAndRequests(t *testing.T) {
	t.Parallel()
	const second = time.Second
	open := within(0, 5, 5*second, 3*second)
	type step struct {
		at     time.Duration
		do     func(*state, time.Time, bounds)
		want   int
		reason string
	}
	see := func(o observation) func(*state, time.Time, bounds) {
		return func(s *state, now time.Time, b bounds) { s.observe(o, now, b) }
	}
	backlog := func(value float64) func(*state, time.Time, bounds) {
		return see(observation{active: value > 0, metrics: []kedarules.Metric{{Value: value, Target: 10}}})
	}
	failed := see(observation{failed: true})
	wake := func(s *state, now time.Time, b bounds) { s.wake(now, b) }
	hold := func(s *state, now time.Time, b bounds) { s.hold(now, b) }
	release := func(s *state, now time.Time, _ bounds) { s.release(now) }

	for name, tc := range map[string]struct {
		bounds bounds
		steps  []step
	}{
		"nothing to do leaves it asleep":        {open, []step{{0, backlog(0), 0, ""}, {second, backlog(0), 0, ""}}},
		"a push wakes one":                      {open, []step{{0, wake, 1, ""}}},
		"a poll finds a backlog without a push": {open, []step{{0, backlog(1), 1, ""}}},
		"a wake goes to the minimum":            {within(2, 5, second, 0), []step{{0, wake, 2, ""}}},
		"a backlog has its replicas at once": {open, []step{
			{0, backlog(35), 4, "the ceiling of 35 by 10"}, {second, backlog(51), 5, "no more than the maximum"},
		}},
		"calls need more replicas than the backlog": {open, []step{{0, see(observation{
			active: true, metrics: []kedarules.Metric{{Value: 5, Target: 10}, {Value: 101, Target: 50}},
		}), 3, ""}}},
		"a backlog near the target changes nothing": {open, []step{
			{0, backlog(20), 2, ""}, {second, backlog(21.9), 2, "within a tenth"}, {2 * second, backlog(22.1), 3, "beyond it"},
		}},
		"replicas are removed only after the backlog stayed small": {open, []step{
			{0, backlog(40), 4, ""},
			{2 * second, backlog(5), 4, "a recent recommendation of 40"},
			{4 * second, backlog(5), 1, "it was not any more"},
		}},
		"an intermediate peak keeps the replicas": {open, []step{
			{0, backlog(40), 4, ""},
			{2 * second, backlog(5), 4, ""},
			{2500 * time.Millisecond, backlog(30), 4, ""},
			{5 * second, backlog(5), 3, "the peak since"},
			{6 * second, backlog(5), 1, ""},
		}},
		"scaled to zero only after the cooldown": {open, []step{
			{0, backlog(1), 1, ""},
			{5 * second, backlog(0), 1, "not longer than the cooldown"},
			{5*second + 1, backlog(0), 0, ""},
		}},
		"all replicas are removed together": {open, []step{{0, backlog(50), 5, ""}, {6 * second, backlog(0), 0, ""}}},
		"errors hold the replicas, asleep and awake": {open, []step{
			{0, failed, 0, ""},
			{second, backlog(25), 3, ""},
			{time.Minute, failed, 3, ""},
			{2 * time.Minute, failed, 3, ""},
			{3 * time.Minute, backlog(0), 0, "errors are no sign of work"},
		}},
		"a push during errors wakes": {open, []step{{0, failed, 0, ""}, {0, wake, 1, ""}, {time.Minute, failed, 1, ""}}},
		"a request holds it awake until its end and the cooldown after it": {open, []step{
			{0, hold, 1, ""},
			{time.Minute, backlog(0), 1, ""},
			{time.Minute, release, 1, ""},
			{time.Minute + 5*second, backlog(0), 1, ""},
			{time.Minute + 6*second, backlog(0), 0, ""},
		}},
		"a request wakes while the backlog is unknown": {open, []step{{0, hold, 1, ""}, {second, failed, 1, ""}}},
		"the cooldown begins with the end of the last request": {open, []step{
			{0, hold, 1, ""},
			{0, hold, 1, ""},
			{second, release, 1, ""},
			{time.Minute, backlog(0), 1, ""},
			{time.Minute, release, 1, ""},
			{time.Minute + 6*second, backlog(0), 0, ""},
		}},
		"the minimum is kept": {within(2, 5, second, second), []step{
			{0, backlog(0), 2, ""},
			{time.Minute, backlog(0), 2, ""},
			{2 * time.Minute, backlog(45), 5, ""},
			{3 * time.Minute, backlog(0), 2, ""},
		}},
		"without a target one replica suffices": {open, []step{{0, see(observation{active: true, metrics: []kedarules.Metric{{Value: 99}}}), 1, ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			s := &state{}
			s.bound(tc.bounds)
			for i, step := range tc.steps {
				step.do(s, start.Add(step.at), tc.bounds)
				require.Equal(t, step.want, s.scale.Replicas, "step %d: %s", i, step.reason)
			}
		})
	}
}

func TestNewBoundsTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	s := &state{scale: kedarules.Scale{Replicas: 4}}
	s.bound(within(0, 2, 0, 0))
	require.Equal(t, 2, s.scale.Replicas)
	s.bound(within(3, 5, 0, 0))
	require.Equal(t, 3, s.scale.Replicas)
}
