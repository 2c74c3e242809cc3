package kedarules

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDesiredReplicasCarryTheValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		current       int
		value, target float64
		want          int
	}{
		"the ceiling of value by target":      {1, 35, 10, 4},
		"fewer when there is less":            {4, 5, 10, 1},
		"none when there is nothing":          {4, 0, 10, 0},
		"a tenth more changes nothing":        {2, 22, 10, 2},
		"more than a tenth more adds one":     {2, 22.1, 10, 3},
		"a tenth less changes nothing":        {10, 90, 10, 10},
		"more than a tenth less takes one":    {10, 89.9, 10, 9},
		"the HPA rests at 0":                  {0, 35, 10, 0},
		"without a target nothing changes":    {2, 35, 0, 2},
		"a negative target is none":           {2, 35, -1, 2},
		"a value beyond what replicas can be": {1, math.MaxFloat64, 1, math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, DesiredReplicas(tc.current, tc.value, tc.target))
		})
	}
}

func TestTheMetricThatWantsMostReplicasDecides(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		metrics []Metric
		want    int
	}{
		"no metric changes nothing": {nil, 2},
		"one":                       {[]Metric{{Value: 35, Target: 10}}, 4},
		"the first":                 {[]Metric{{Value: 35, Target: 10}, {Value: 35, Target: 50}}, 4},
		"the second":                {[]Metric{{Target: 10}, {Value: 120, Target: 50}}, 3},
		"none of them":              {[]Metric{{Target: 10}, {Target: 50}}, 0},
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
		"what was desired before a sleep adds none": {{0, 1, 4, 4}, {time.Second, 1, 1, 1}, {2 * time.Second, 1, 2, 2}},
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
