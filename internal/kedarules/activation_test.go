package kedarules

import (
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
		"an active trigger activates one replica":               {toZero, 0, longAgo, true, false, Scale{1, now}},
		"an active trigger activates minReplicaCount":           {toTwo, 0, longAgo, true, false, Scale{2, now}},
		"an active trigger activates beside one that failed":    {toZero, 0, longAgo, true, true, Scale{1, now}},
		"an active trigger keeps the replicas for a cooldown":   {toZero, 3, longAgo, true, false, Scale{3, now}},
		"an active trigger beside one that failed is no work":   {toZero, 3, longAgo, true, true, Scale{3, longAgo}},
		"an error holds the replicas":                           {toZero, 3, longAgo, false, true, Scale{3, longAgo}},
		"an error activates nothing":                            {toZero, 0, longAgo, false, true, Scale{0, longAgo}},
		"an error holds fewer than minReplicaCount":             {toTwo, 1, longAgo, false, true, Scale{1, longAgo}},
		"no work within the cooldown keeps the replicas":        {toZero, 3, recently, false, false, Scale{3, recently}},
		"no work after the cooldown takes all replicas":         {toZero, 3, longAgo, false, false, Scale{0, longAgo}},
		"no work ever takes all replicas at once":               {toZero, 3, time.Time{}, false, false, Scale{0, time.Time{}}},
		"no work leaves it asleep":                              {toZero, 0, longAgo, false, false, Scale{0, longAgo}},
		"no work leaves minReplicaCount":                        {toTwo, 2, longAgo, false, false, Scale{2, longAgo}},
		"no work leaves what is above minReplicaCount":          {toTwo, 4, longAgo, false, false, Scale{4, longAgo}},
		"no work raises what is below minReplicaCount":          {toTwo, 1, longAgo, false, false, Scale{2, longAgo}},
		"no work and no replicas have minReplicaCount restored": {toTwo, 0, longAgo, false, false, Scale{2, longAgo}},
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
