package wake

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func TestReplicasAreOnlyAddedToThoseOfAWake(t *testing.T) {
	t.Parallel()
	const young, old, older = 100 * time.Millisecond, gracePeriod, lateFor
	for name, tc := range map[string]struct {
		age   time.Duration
		want  want
		state state
		set   int
		again time.Duration
	}{
		"KEDA has set the first replica":                   {young, want{replicas: 7}, state{replicas: 1, high: 10}, 7, 0},
		"KEDA has set the least replicas":                  {young, want{replicas: 7}, state{replicas: 3, low: 3, high: 10}, 7, 0},
		"the work needs more than there may be":            {young, want{replicas: 70}, state{replicas: 1, high: 10}, 10, 0},
		"the work needs one, which KEDA has set":           {young, want{replicas: 1}, state{replicas: 1, high: 10}, 0, 0},
		"KEDA has a second for the first replica":          {young, want{replicas: 7}, state{replicas: 0, high: 10}, 0, lookEvery},
		"KEDA has set none for a second":                   {old, want{replicas: 7}, state{replicas: 0, high: 10}, 1, 0},
		"KEDA has not set the least replicas":              {old, want{replicas: 7}, state{replicas: 0, low: 3, high: 10}, 3, 0},
		"KEDA may still set the first replica":             {old, want{replicas: 7, wrote: 1}, state{replicas: 1, high: 10, active: noon().Add(-time.Hour)}, 0, 0},
		"KEDA takes part in a wake that it did not make":   {old, want{replicas: 7, wrote: 1}, state{replicas: 1, high: 10, active: noon()}, 7, 0},
		"KEDA takes no part":                               {older, want{replicas: 7, wrote: 1}, state{replicas: 1, high: 10}, 7, 0},
		"the HPA has decided":                              {young, want{replicas: 7}, state{replicas: 4, high: 10}, 0, 0},
		"the backlog has grown since the last write":       {young, want{replicas: 7, wrote: 4}, state{replicas: 4, high: 10}, 7, 0},
		"the HPA has decided since the last write":         {young, want{replicas: 7, wrote: 4}, state{replicas: 5, high: 10}, 0, 0},
		"KEDA has set the first replica over a write":      {young, want{replicas: 7, wrote: 7}, state{replicas: 1, high: 10}, 7, 0},
		"there are as many as the work needs":              {young, want{replicas: 7}, state{replicas: 7, high: 10}, 0, 0},
		"there are more than there may be, set by someone": {young, want{replicas: 20}, state{replicas: 12, high: 10}, 0, 0},
		"the work was done before KEDA took the replica":   {older, want{replicas: 1, wrote: 1, last: noon().Add(-holds - 1)}, state{replicas: 0, high: 10}, 0, 0},
		"without KEDA nobody else sets the first replica":  {young, want{replicas: 7}, state{replicas: 0, high: 10, alone: true}, 7, 0},
		"without KEDA an HPA decides later":                {young, want{replicas: 7, wrote: 2}, state{replicas: 4, high: 10, alone: true}, 0, 0},
		"without KEDA more is needed than was written":     {young, want{replicas: 7, wrote: 4}, state{replicas: 4, high: 10, alone: true}, 7, 0},
		"a paused ScaledObject at zero":                    {old, want{replicas: 7}, state{replicas: 0, high: 10, paused: true}, 0, 0},
		"a paused ScaledObject with a replica":             {old, want{replicas: 7}, state{replicas: 1, high: 10, paused: true}, 0, 0},
	} {
		tc.want.first = noon().Add(-tc.age)
		if tc.want.last.IsZero() {
			tc.want.last = noon()
		}
		set, again := decide(tc.want, tc.state, noon())
		require.Equal(t, tc.set, set, name)
		require.Equal(t, tc.again, again, name)
	}
}

func TestAWakeLastsWhileItIsAnnounced(t *testing.T) {
	t.Parallel()
	now := noon()
	wanted := want{}.announced(1, now)
	require.Equal(t, want{replicas: 1, first: now, last: now}, wanted)
	require.True(t, wanted.early(now.Add(gracePeriod-1)), "KEDA has a second")
	require.False(t, wanted.early(now.Add(gracePeriod)))

	wanted.wrote = 1
	later := now.Add(wakeEnds - 1)
	wanted = wanted.announced(3, later)
	require.Equal(t, want{replicas: 3, first: now, last: later, wrote: 1}, wanted)
	require.False(t, wanted.early(later))

	again := later.Add(wakeEnds)
	require.True(t, wanted.over(again))
	require.Equal(t, want{replicas: 2, first: again, last: again}, wanted.announced(2, again))
}
