package buildqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func named(name string) types.NamespacedName {
	namespace, fn, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: fn}
}

func several(names ...string) []types.NamespacedName {
	var found []types.NamespacedName
	for _, name := range names {
		found = append(found, named(name))
	}
	return found
}

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// one returns limits for one build, and few limits that namespaces share.
func one() Limits { return Limits{Total: 1, Longest: time.Hour} }

func few() Limits { return Limits{Total: 5, Longest: 15 * time.Minute} }

func TestBuildsAlternateBetweenNamespaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		arrive, want []string
	}{
		"one namespace goes by arrival":           {[]string{"a/1", "a/2", "a/3"}, []string{"a/1", "a/2", "a/3"}},
		"namespaces take turns":                   {[]string{"a/1", "a/2", "a/3", "b/1", "b/2"}, []string{"a/1", "b/1", "a/2", "b/2", "a/3"}},
		"the first namespace to come begins":      {[]string{"b/1", "a/1", "b/2"}, []string{"b/1", "a/1", "b/2"}},
		"a repeated request keeps its place":      {[]string{"a/1", "a/2", "a/1"}, []string{"a/1", "a/2"}},
		"a crowd does not push a newcomer behind": {[]string{"a/1", "a/2", "a/3", "a/4", "c/1"}, []string{"a/1", "c/1", "a/2", "a/3", "a/4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSlots(one())
			busy := several("x/x")
			for _, fn := range tc.arrive {
				require.False(t, s.enter(named(fn), busy, noon()).Granted)
			}
			require.Equal(t, several(tc.want...), s.order())
			for i, fn := range tc.want {
				require.Equal(t, QueueStatus{Position: i + 1, Waiting: len(tc.want), Running: 1}, s.enter(named(fn), busy, noon()))
			}
		})
	}
}

func TestANamespaceWithTheLastGrantWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	s := newSlots(one())
	for _, fn := range several("a/1", "a/2", "b/1", "b/2") {
		s.enter(fn, several("x/x"), noon())
	}
	var served []types.NamespacedName
	for range 4 {
		next := s.next(nil, noon())
		require.Len(t, next, 1)
		require.True(t, s.enter(next[0], nil, noon()).Granted)
		served = append(served, next[0])
		s.leave(next[0])
	}
	require.Equal(t, several("a/1", "b/1", "a/2", "b/2"), served)
}

func TestSlots(t *testing.T) {
	t.Parallel()
	t.Run("a slot is held until its Job is observed", func(t *testing.T) {
		t.Parallel()
		s := newSlots(Limits{Total: 2, PerNamespace: 2, Longest: time.Hour})
		require.True(t, s.enter(named("a/1"), nil, noon()).Granted)
		require.True(t, s.enter(named("a/1"), nil, noon()).Granted, "asking twice takes one slot")
		require.True(t, s.enter(named("a/2"), nil, noon()).Granted)
		require.Equal(t, QueueStatus{Position: 1, Waiting: 1, Running: 2}, s.enter(named("a/3"), nil, noon()))
		require.Equal(t, QueueStatus{Position: 1, Waiting: 1, Running: 2}, s.enter(named("a/3"), several("a/1"), noon()))
		require.Empty(t, s.next(several("a/1"), noon()))
		require.Equal(t, several("a/3"), s.next(several("a/1"), noon().Add(startGrace+1)), "a/2 never came")
	})
	t.Run("a slot that is given up is held while its Job runs, listed or not", func(t *testing.T) {
		t.Parallel()
		s := newSlots(one())
		require.True(t, s.enter(named("a/1"), nil, noon()).Granted)
		s.began(named("a/1"))
		s.leave(named("a/1"))
		require.False(t, s.enter(named("a/2"), nil, noon()).Granted)
		require.False(t, s.enter(named("a/2"), several("a/1"), noon()).Granted)
		require.True(t, s.enter(named("a/2"), nil, noon()).Granted)
	})
	t.Run("a build that replaces its predecessor needs no further slot", func(t *testing.T) {
		t.Parallel()
		s := newSlots(one())
		require.True(t, s.enter(named("a/1"), several("a/1"), noon()).Granted)
		require.False(t, s.enter(named("a/2"), several("a/1"), noon()).Granted)
	})
	t.Run("an excluded Function starts no build", func(t *testing.T) {
		t.Parallel()
		s := newSlots(one())
		require.True(t, s.exclude(named("a/1"), nil, noon()))
		require.False(t, s.enter(named("a/1"), nil, noon()).Granted)
		require.Empty(t, s.next(nil, noon()))
		require.True(t, s.enter(named("b/1"), nil, noon()).Granted, "nor does it hold up the next one")
		s.leave(named("b/1"))
		delete(s.excluded, named("a/1"))
		require.Equal(t, several("a/1"), s.next(nil, noon()))
	})
	t.Run("a Function that does not repeat its request loses its position", func(t *testing.T) {
		t.Parallel()
		s := newSlots(one())
		s.enter(named("a/1"), several("x/x"), noon())
		later := noon().Add(timeout + 1)
		require.Equal(t, QueueStatus{Position: 1, Waiting: 1, Running: 1}, s.enter(named("a/2"), several("x/x"), later))
	})
	t.Run("no build starts above the limit", func(t *testing.T) {
		t.Parallel()
		s := newSlots(one())
		require.False(t, s.enter(named("a/1"), several("x/1", "x/2", "x/3"), noon()).Granted)
		require.Empty(t, s.next(several("x/1", "x/2", "x/3"), noon()))
	})
	t.Run("an empty queue holds no state", func(t *testing.T) {
		t.Parallel()
		s := newSlots(one())
		for i := range 100 {
			fn := named(fmt.Sprintf("ns-%d/f", i))
			s.enter(fn, nil, noon())
			s.leave(fn)
		}
		s.next(nil, noon())
		require.Empty(t, s.served)
	})
}

func TestNamespaceHoldsAtMostItsShare(t *testing.T) {
	t.Parallel()
	for limits, want := range map[Limits]int{
		{Total: 1}: 1, {Total: 2}: 1, {Total: 5}: 3, {Total: 5, PerNamespace: 4}: 4, {Total: 5, PerNamespace: 9}: 5,
	} {
		limits.Longest = time.Hour
		s := newSlots(limits)
		granted := 0
		for i := range 10 {
			if s.enter(named(fmt.Sprintf("greedy/%d", i)), nil, noon()).Granted {
				granted++
			}
		}
		require.Equal(t, want, granted, "%v", limits)
		status := s.enter(named("greedy/9"), nil, noon())
		if want < limits.Total {
			require.Equal(t, want, status.Share, "the status must give the reason for waiting")
			require.Equal(t, QueueStatus{Granted: true}, s.enter(named("other/1"), nil, noon()), "past those that wait")
		}
	}
}

func TestJobsWithoutAGrantHoldNoSlot(t *testing.T) {
	t.Parallel()
	forged := several("evil/1", "evil/2", "evil/3", "evil/4", "evil/5")
	t.Run("while the controller runs", func(t *testing.T) {
		t.Parallel()
		s := newSlots(few())
		require.Empty(t, s.next(nil, noon()))
		for i := range few().Total {
			require.True(t, s.enter(named(fmt.Sprintf("shop-%d/f", i)), forged, noon()).Granted)
		}
	})
	t.Run("more than a share at its start", func(t *testing.T) {
		t.Parallel()
		s := newSlots(few())
		require.True(t, s.enter(named("shop/1"), forged, noon()).Granted)
		require.True(t, s.enter(named("shop/2"), forged, noon()).Granted)
		require.Equal(t, QueueStatus{Position: 1, Waiting: 1, Running: 5}, s.enter(named("shop/3"), forged, noon()))
		require.True(t, s.enter(named("shop/3"), forged, noon().Add(few().holdable()+1)).Granted, "nor for longer than a build")
	})
	t.Run("longer than a build may take, although made again and again", func(t *testing.T) {
		t.Parallel()
		s := newSlots(one())
		require.True(t, s.enter(named("evil/1"), nil, noon()).Granted)
		later := noon().Add(one().holdable())
		require.False(t, s.enter(named("shop/1"), several("evil/1"), later).Granted)
		later = later.Add(1)
		require.True(t, s.enter(named("shop/1"), several("evil/1"), later).Granted)
		require.False(t, s.enter(named("evil/1"), several("evil/1", "shop/1"), later).Granted)
	})
}

func TestAFunctionThatRebuildsYieldsToOthers(t *testing.T) {
	t.Parallel()
	s := newSlots(one())
	now := noon()
	require.True(t, s.enter(named("evil/1"), nil, now).Granted)
	s.enter(named("shop/1"), several("evil/1"), now)
	status := s.enter(named("evil/1"), several("evil/1"), now.Add(time.Second))
	require.False(t, status.Granted, "it is another Function's turn")
	require.True(t, s.enter(named("shop/1"), nil, now.Add(2*time.Second)).Granted, "once the superseded Job is gone")
}

func TestASlotIsKeptUntilTheReplacementJobAppears(t *testing.T) {
	t.Parallel()
	s := newSlots(one())
	require.True(t, s.enter(named("a/1"), nil, noon()).Granted)
	s.next(several("a/1"), noon())
	require.True(t, s.enter(named("a/1"), several("a/1"), noon().Add(time.Minute)).Granted)
	require.False(t, s.enter(named("b/1"), nil, noon().Add(time.Minute)).Granted, "the old Job is gone, the new one not yet seen")
	require.False(t, s.enter(named("b/1"), several("a/1"), noon().Add(2*time.Minute)).Granted)
	require.True(t, s.enter(named("b/1"), nil, noon().Add(3*time.Minute)).Granted)
}

func TestABuildJobHoldsItsSlotAfterItsFunctionLeft(t *testing.T) {
	t.Parallel()
	s := newSlots(one())
	require.True(t, s.enter(named("a/1"), nil, noon()).Granted)
	s.next(several("a/1"), noon())
	s.leave(named("a/1"))
	require.False(t, s.enter(named("a/2"), several("a/1"), noon()).Granted)
	require.True(t, s.enter(named("a/2"), nil, noon()).Granted)
}

func TestDeletedFunctionsLeaveNoState(t *testing.T) {
	t.Parallel()
	s := newSlots(one())
	busy := several("x/x")
	for i := range 1000 {
		s.enter(named(fmt.Sprintf("churn/%d", i)), busy, noon())
		s.leave(named(fmt.Sprintf("churn/%d", i)))
	}
	require.Empty(t, s.waiting)
	for i := range 1000 {
		s.enter(named(fmt.Sprintf("mute/%d", i)), busy, noon())
	}
	s.next(nil, noon().Add(timeout+1))
	require.Empty(t, s.waiting)
	require.Empty(t, s.served)
	require.Empty(t, s.taken)
}

// TestHangingBuildsDoNotStarveOthers simulates a day: one namespace has many Functions whose builds all run to their
// deadline, another one an occasional short build.
func TestHangingBuildsDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	const step, short = 20 * time.Second, time.Minute
	for name, tc := range map[string]struct {
		limits Limits
		waits  time.Duration
	}{
		"with slots for others":     {few(), 0},
		"with one slot for all":     {Limits{Total: 1, Longest: 15 * time.Minute}, 15*time.Minute + step},
		"with all slots for anyone": {Limits{Total: 3, PerNamespace: 3, Longest: 15 * time.Minute}, 15*time.Minute + step},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSlots(tc.limits)
			ends := map[types.NamespacedName]time.Time{}
			asked, longest, built := time.Time{}, time.Duration(0), 0
			honest := named("honest/f")
			for now := noon(); now.Before(noon().Add(24 * time.Hour)); now = now.Add(step) {
				var running []types.NamespacedName
				for fn, end := range ends {
					if now.Before(end) {
						running = append(running, fn)
					} else {
						delete(ends, fn)
						s.leave(fn)
					}
				}
				for i := range 8 {
					fn := named(fmt.Sprintf("evil/%d", i))
					if _, builds := ends[fn]; !builds && s.enter(fn, running, now).Granted {
						ends[fn] = now.Add(tc.limits.Longest)
					}
				}
				if _, builds := ends[honest]; builds {
					continue
				}
				if asked.IsZero() {
					asked = now
				}
				if s.enter(honest, running, now).Granted {
					longest, built = max(longest, now.Sub(asked)), built+1
					asked, ends[honest] = time.Time{}, now.Add(short)
				}
				require.LessOrEqual(t, len(ends), tc.limits.Total)
			}
			require.LessOrEqual(t, longest, tc.waits)
			require.Greater(t, built, 40)
		})
	}
}
