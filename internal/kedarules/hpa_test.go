package kedarules

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func TestKEDAActivatesAndDeactivates(t *testing.T) {
	t.Parallel()
	toZero := Bounds{Min: 0, Max: 5, Cooldown: time.Minute}
	toTwo := Bounds{Min: 2, Max: 5, Cooldown: time.Minute}
	now := noon()
	recently, longAgo := now.Add(-time.Minute), now.Add(-time.Minute-1)
	for name, tc := range map[string]struct {
		bounds         Bounds
		replicas       int
		lastActive     time.Time
		active, failed bool
		want           Scale
	}{
		"an active trigger activates one replica":                         {toZero, 0, longAgo, true, false, Scale{1, now}},
		"an active trigger activates minReplicaCount":                     {toTwo, 0, longAgo, true, false, Scale{2, now}},
		"an active trigger activates beside one that failed":              {toZero, 0, longAgo, true, true, Scale{1, now}},
		"an active trigger keeps the replicas for a cooldown":             {toZero, 3, longAgo, true, false, Scale{3, now}},
		"an active trigger beside one that failed does not count as work": {toZero, 3, longAgo, true, true, Scale{3, longAgo}},
		"an error holds the replicas":                                     {toZero, 3, longAgo, false, true, Scale{3, longAgo}},
		"an error activates nothing":                                      {toZero, 0, longAgo, false, true, Scale{0, longAgo}},
		"an error holds fewer than minReplicaCount":                       {toTwo, 1, longAgo, false, true, Scale{1, longAgo}},
		"no work within the cooldown keeps the replicas":                  {toZero, 3, recently, false, false, Scale{3, recently}},
		"no work after the cooldown takes all replicas":                   {toZero, 3, longAgo, false, false, Scale{0, longAgo}},
		"no work ever takes all replicas at once":                         {toZero, 3, time.Time{}, false, false, Scale{0, time.Time{}}},
		"no work leaves it asleep":                                        {toZero, 0, longAgo, false, false, Scale{0, longAgo}},
		"no work leaves minReplicaCount":                                  {toTwo, 2, longAgo, false, false, Scale{2, longAgo}},
		"no work keeps replicas above minReplicaCount":                    {toTwo, 4, longAgo, false, false, Scale{4, longAgo}},
		"no work raises replicas below minReplicaCount":                   {toTwo, 1, longAgo, false, false, Scale{2, longAgo}},
		"no work and no replicas have minReplicaCount restored":           {toTwo, 0, longAgo, false, false, Scale{2, longAgo}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Scale{tc.replicas, tc.lastActive}.Request(tc.active, tc.failed, now, tc.bounds))
		})
	}
}

func TestHPABoundsBeginAtOneReplica(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bounds         Bounds
		replicas, want int
	}{
		"a minimum of 0 is 1":         {Bounds{Min: 0, Max: 5}, 0, 1},
		"fewer than the minimum":      {Bounds{Min: 2, Max: 5}, 1, 2},
		"between":                     {Bounds{Min: 2, Max: 5}, 3, 3},
		"more than the maximum":       {Bounds{Min: 2, Max: 5}, 6, 5},
		"a maximum below the minimum": {Bounds{Min: 3, Max: 1}, 2, 1},
	} {
		require.Equal(t, tc.want, tc.bounds.Clamp(tc.replicas), name)
	}
}

func TestFloatWinsOverWholeNumber(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2.5, Number(2.5, 7), 0)
	require.InDelta(t, 7, Number(0, 7), 0)
	require.InDelta(t, 7, Number(-1, 7), 0)
	require.Zero(t, Number(0, 0))
}

func TestDesiredReplicasCarryTheValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		current       int
		value, target float64
		want          int
	}{
		"the ceiling of value by target":         {1, 35, 10, 4},
		"fewer when there is less":               {4, 5, 10, 1},
		"none for a value of 0":                  {4, 0, 10, 0},
		"a tenth more changes nothing":           {2, 22, 10, 2},
		"more than a tenth more adds one":        {2, 22.1, 10, 3},
		"a tenth less changes nothing":           {10, 90, 10, 10},
		"more than a tenth less takes one":       {10, 89.9, 10, 9},
		"the HPA rests at 0":                     {0, 35, 10, 0},
		"without a target nothing changes":       {2, 35, 0, 2},
		"a negative target is no target":         {2, 35, -1, 2},
		"a value beyond the maximum of replicas": {1, math.MaxFloat64, 1, math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, DesiredReplicas(tc.current, tc.value, tc.target))
		})
	}
}

func TestMetricWithMostDesiredReplicasDecides(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		metrics []Metric
		want    int
	}{
		"no metric changes nothing":   {nil, 2},
		"one":                         {[]Metric{{Value: 35, Target: 10}}, 4},
		"the first":                   {[]Metric{{Value: 35, Target: 10}, {Value: 35, Target: 50}}, 4},
		"the second":                  {[]Metric{{Target: 10}, {Value: 120, Target: 50}}, 3},
		"no replicas for values of 0": {[]Metric{{Target: 10}, {Target: 50}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, DesiredByMost(2, tc.metrics))
		})
	}
}

func TestScaleUpLimitIsFourMoreOrTwiceAsMany(t *testing.T) {
	t.Parallel()
	for current, want := range map[int]int{1: 5, 4: 8, 5: 10, 20: 40} {
		require.Equal(t, want, ScaleUpLimit(current), current)
	}
}

func TestRecommendationsOfTheWindowKeepReplicas(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	type step struct {
		at            time.Duration
		current, want int
		desired       int
	}
	for name, steps := range map[string][]step{
		"more at once": {{0, 1, 4, 4}, {time.Second, 4, 5, 5}},
		"fewer only after the window": {
			{0, 1, 4, 4}, {9 * time.Second, 4, 4, 1}, {10 * time.Second, 4, 1, 1},
		},
		"one step after the other as they leave the window": {
			{0, 1, 4, 4}, {time.Second, 4, 4, 3}, {2 * time.Second, 4, 4, 1}, {10 * time.Second, 4, 3, 1}, {11 * time.Second, 3, 1, 1},
		},
		"a peak begins the window again": {
			{0, 1, 4, 4}, {5 * time.Second, 4, 4, 1}, {6 * time.Second, 4, 4, 4}, {12 * time.Second, 4, 4, 1}, {16 * time.Second, 4, 1, 1},
		},
		"recommendations before a sleep add no replicas": {{0, 1, 4, 4}, {time.Second, 1, 1, 1}, {2 * time.Second, 1, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Recommendations
			for i, s := range steps {
				require.Equal(t, s.want, r.Stabilize(s.current, s.desired, noon().Add(s.at), window), "step %d", i)
			}
		})
	}
}

func TestRecommendationsAreBoundedByTheNumbersOfReplicas(t *testing.T) {
	t.Parallel()
	var r Recommendations
	for i := range 10_000 {
		r.Stabilize(7, 7-i%7, noon().Add(time.Duration(i)*time.Millisecond), time.Hour)
		require.LessOrEqual(t, len(r.recent), 7)
	}
}

func TestNoWindowStabilizesNothing(t *testing.T) {
	t.Parallel()
	var r Recommendations
	require.Equal(t, 4, r.Stabilize(1, 4, noon(), 0))
	require.Equal(t, 1, r.Stabilize(4, 1, noon(), 0))
}

func TestBackoffDoublesUntilAStreamEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	b := Backoff{First: FirstStreamBackoff, Last: LastStreamBackoff}
	var pauses []time.Duration
	for _, endedWithoutError := range []bool{false, false, false, false, false, false, false, true, false, true, true} {
		pauses = append(pauses, b.Next(endedWithoutError)/time.Second)
	}
	require.Equal(t, []time.Duration{2, 4, 8, 16, 32, 60, 60, 2, 4, 2, 2}, pauses)
}
