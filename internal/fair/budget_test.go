package fair

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneGroupAcquiresAtMostHalfOfTheBudget(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000, 0)
	hostile := []*Share{b.Share("hostile"), b.Share("hostile"), b.Share("hostile")}
	for range 100 {
		for _, s := range hostile {
			s.Acquire(1, 1000)
		}
	}
	require.LessOrEqual(t, b.Used(), int64(500), "a namespace with many Subscriptions is one")
	require.GreaterOrEqual(t, b.Used(), int64(490))
	require.Equal(t, int64(250), b.Share("shop").Acquire(1, 1000))
}

func TestAnEmptyGroupAlwaysAcquiresFromAFullBudget(t *testing.T) {
	t.Parallel()
	b := NewBudget(1<<20, 0)
	for _, group := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		s := b.Share(group)
		for s.Acquire(1, 1<<20) > 0 {
		}
	}
	require.Equal(t, int64(1000), b.Share("shop").Acquire(1000, 1000))
	require.LessOrEqual(t, b.Used(), int64(1<<20))
}

func TestOwnBytesOfAShareAreAlwaysAvailable(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000, 10)
	hostile := b.Share("shop")
	for hostile.Acquire(1, 1000) > 0 {
	}
	other := b.Share("shop")
	require.Equal(t, int64(10), other.Acquire(10, 10), "also in the same namespace")
	require.Zero(t, other.Acquire(10, 10))
	other.Release(10)
	require.Equal(t, int64(10), other.Acquire(5, 1000))
}

func TestReleasedBytesCanBeAcquiredAgain(t *testing.T) {
	t.Parallel()
	b := NewBudget(1000, 100)
	s := b.Share("shop")
	for range 1000 {
		taken := s.Acquire(300, 400)
		require.Equal(t, int64(400), taken)
		require.True(t, s.Overdraw(700))
		s.Release(taken)
		s.Release(700)
	}
	require.Zero(t, b.Used())
	require.Empty(t, b.groups, "groups without bytes must be dropped")
}

func TestARefusedShareIsNotifiedOfItsOwnRelease(t *testing.T) {
	t.Parallel()
	b := NewBudget(100, 0)
	s := b.Share("shop")
	require.Equal(t, int64(50), s.Acquire(1, 100))
	require.Zero(t, s.Acquire(50, 50))
	s.Release(50)
	<-s.Freed()
	require.Positive(t, s.Acquire(25, 50))
}

// No request may wait forever for bytes that will never be available.
func TestARequestLargerThanTheBudgetCountsAsAPartOfIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, int64(25), NewBudget(100, 0).Share("shop").Acquire(1000, 25))
	require.Equal(t, int64(50), NewBudget(100, 0).Share("shop").Acquire(1000, 1000))
}

func TestOneShareOfAGroupMayOverdrawAtATime(t *testing.T) {
	t.Parallel()
	b := NewBudget(100, 10)
	first, second := b.Share("shop"), b.Share("shop")
	require.True(t, first.Overdraw(1000))
	require.True(t, first.Overdraw(1000), "the same one goes on")
	require.False(t, second.Overdraw(1), "others of its group wait")
	require.True(t, b.Share("other").Overdraw(1000), "other groups do not")
	first.Release(1990)
	require.True(t, second.Overdraw(1), "the first share uses only its own bytes")
	first.Release(10)
	second.Release(1)
	require.Len(t, b.overdrawn, 1, "the other group")
}

func TestValuesAreCountedOutsideOfTextsHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	none := JSONLimits{Values: 100, Depth: 100}
	for text, want := range map[string]JSONCounter{
		`{"a":[1,{},"x"],"b":"{[,\"{[,\\"}`: {values: 6},
		`{"a":"\\","b":[`:                   {values: 3, depth: 2},
		`"\"{`:                              {text: true},
		`{},{},{}`:                          {values: 5},
		``:                                  {},
	} {
		want.Limits = none
		for _, size := range []int{1, 3, max(1, len(text))} {
			got := JSONCounter{Limits: none}
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				require.True(t, got.Add([]byte(rest[:n])))
				rest = rest[n:]
			}
			require.Equal(t, want, got, text)
		}
	}
}

func TestCounterFailsAtTheFirstValueOverALimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits JSONLimits
		text   string
		want   bool
	}{
		"the maximum number of values": {JSONLimits{Values: 3, Depth: 9}, `[1,2,`, true},
		"one value too many":           {JSONLimits{Values: 3, Depth: 9}, `[1,2,3,`, false},
		"the maximum depth":            {JSONLimits{Values: 9, Depth: 3}, `[[[`, true},
		"deeper":                       {JSONLimits{Values: 9, Depth: 3}, `[[[[`, false},
		"wide and not deep":            {JSONLimits{Values: 9, Depth: 1}, `[][][]`, true},
	} {
		counter := JSONCounter{Limits: tc.limits}
		require.Equal(t, tc.want, counter.Add([]byte(tc.text)), name)
	}
}

// A decoded text has no more values than were counted.
func FuzzCounter(f *testing.F) {
	for _, text := range []string{`{"a":[1,{},"x"],"b":"{[,\"{[,\\"}`, `[[],{},"\u0022,",null]`, `"`, strings.Repeat("[", 40)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		counter := JSONCounter{Limits: JSONLimits{Values: len(text) + 1, Depth: len(text) + 1}}
		require.True(t, counter.Add([]byte(text)))
		require.LessOrEqual(t, containers(value), counter.values)
		require.Zero(t, counter.depth)
	})
}

// containers returns the objects and arrays of a value, and all contents except the first.
func containers(value any) int {
	count := 0
	switch value := value.(type) {
	case map[string]any:
		count = 1 + max(len(value)-1, 0)
		for _, each := range value {
			count += containers(each)
		}
	case []any:
		count = 1 + max(len(value)-1, 0)
		for _, each := range value {
			count += containers(each)
		}
	}
	return count
}
