package build

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

func TestTheOrderOfBuilds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		arrive, want []string
	}{
		"one namespace goes by arrival":           {[]string{"a/1", "a/2", "a/3"}, []string{"a/1", "a/2", "a/3"}},
		"namespaces take turns":                   {[]string{"a/1", "a/2", "a/3", "b/1", "b/2"}, []string{"a/1", "b/1", "a/2", "b/2", "a/3"}},
		"the first namespace to come begins":      {[]string{"b/1", "a/1", "b/2"}, []string{"b/1", "a/1", "b/2"}},
		"asking again changes nothing":            {[]string{"a/1", "a/2", "a/1"}, []string{"a/1", "a/2"}},
		"a crowd does not push a newcomer behind": {[]string{"a/1", "a/2", "a/3", "a/4", "c/1"}, []string{"a/1", "c/1", "a/2", "a/3", "a/4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(1)
			busy := several("x/x")
			for _, fn := range tc.arrive {
				require.False(t, l.enter(named(fn), busy, noon()).Granted)
			}
			require.Equal(t, several(tc.want...), l.order())
			for i, fn := range tc.want {
				require.Equal(t, Place{Position: i + 1, Waiting: len(tc.want), Running: 1}, l.enter(named(fn), busy, noon()))
			}
		})
	}
}

func TestANamespaceThatHadItsTurnWaitsForTheOthers(t *testing.T) {
	t.Parallel()
	l := newLine(1)
	for _, fn := range several("a/1", "a/2", "b/1", "b/2") {
		l.enter(fn, several("x/x"), noon())
	}
	var served []types.NamespacedName
	for range 4 {
		next := l.next(nil, noon())
		require.Len(t, next, 1)
		require.True(t, l.enter(next[0], nil, noon()).Granted)
		served = append(served, next[0])
		l.leave(next[0])
	}
	require.Equal(t, several("a/1", "b/1", "a/2", "b/2"), served)
}

func TestSlots(t *testing.T) {
	t.Parallel()
	t.Run("a slot is kept until its Job is seen", func(t *testing.T) {
		t.Parallel()
		l := newLine(2)
		require.True(t, l.enter(named("a/1"), nil, noon()).Granted)
		require.True(t, l.enter(named("a/1"), nil, noon()).Granted, "asking twice takes one slot")
		require.True(t, l.enter(named("a/2"), nil, noon()).Granted)
		require.Equal(t, Place{Position: 1, Waiting: 1, Running: 2}, l.enter(named("a/3"), nil, noon()))
		require.Equal(t, Place{Position: 1, Waiting: 1, Running: 2}, l.enter(named("a/3"), several("a/1"), noon()))
		require.Empty(t, l.next(several("a/1"), noon()))
		require.Equal(t, several("a/3"), l.next(several("a/1"), noon().Add(startGrace+1)), "a/2 never came")
	})
	t.Run("a build that takes the place of its predecessor needs no further slot", func(t *testing.T) {
		t.Parallel()
		l := newLine(1)
		require.True(t, l.enter(named("a/1"), several("a/1"), noon()).Granted)
		require.False(t, l.enter(named("a/2"), several("a/1"), noon()).Granted)
	})
	t.Run("nobody begins while the line is held", func(t *testing.T) {
		t.Parallel()
		l := newLine(1)
		l.held = true
		require.False(t, l.enter(named("a/1"), nil, noon()).Granted)
		require.Empty(t, l.next(nil, noon()))
		l.held = false
		require.Equal(t, several("a/1"), l.next(nil, noon()))
	})
	t.Run("who does not ask again loses the place", func(t *testing.T) {
		t.Parallel()
		l := newLine(1)
		l.enter(named("a/1"), several("x/x"), noon())
		later := noon().Add(patience + 1)
		require.Equal(t, Place{Position: 1, Waiting: 1, Running: 1}, l.enter(named("a/2"), several("x/x"), later))
	})
	t.Run("more builds than the limit let nobody in", func(t *testing.T) {
		t.Parallel()
		l := newLine(1)
		require.False(t, l.enter(named("a/1"), several("x/1", "x/2", "x/3"), noon()).Granted)
		require.Empty(t, l.next(several("x/1", "x/2", "x/3"), noon()))
	})
	t.Run("an empty line remembers nothing", func(t *testing.T) {
		t.Parallel()
		l := newLine(1)
		for i := range 100 {
			fn := named(fmt.Sprintf("ns-%d/f", i))
			l.enter(fn, nil, noon())
			l.leave(fn)
		}
		l.next(nil, noon())
		require.Empty(t, l.served)
	})
}
