package function

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func inNamespace(namespace string, numbers ...int) []types.NamespacedName {
	all := make([]types.NamespacedName, len(numbers))
	for i, number := range numbers {
		all[i] = types.NamespacedName{Namespace: namespace, Name: strconv.Itoa(number)}
	}
	return all
}

func TestABoundedNumberOfFunctionsFollowSettingsAtATime(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	var entered []types.NamespacedName
	for i := range 10 {
		for _, fn := range inNamespace(strconv.Itoa(i), 1) {
			if slots.enter(fn, 4, now) {
				entered = append(entered, fn)
			}
			slots.enter(fn, 4, now) // which changes nothing
		}
	}
	require.Len(t, entered, 4)
	require.Empty(t, slots.next(4, now))
	for followed := 4; followed < 10; followed++ {
		require.True(t, slots.leave(entered[0]))
		called := slots.next(4, now)
		require.Len(t, called, 1)
		require.Equal(t, strconv.Itoa(followed), called[0].Namespace, "the first comes first")
		require.True(t, slots.enter(called[0], 4, now))
		entered = append(entered[1:], called[0])
	}
	for _, fn := range entered {
		require.True(t, slots.leave(fn))
		require.False(t, slots.leave(fn))
	}
	require.Empty(t, slots.next(4, now))
	require.Empty(t, slots.held)
	require.Zero(t, slots.waiting.Len())
	require.Empty(t, slots.queued)
}

func TestANamespaceWithManyFunctionsLetsOthersFollow(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	entered := 0
	for _, fn := range inNamespace("many", 1, 2, 3, 4, 5, 6, 7, 8) {
		if slots.enter(fn, 4, now) {
			entered++
		}
	}
	require.Equal(t, 2, entered, "half of the slots")
	other := inNamespace("few", 1)[0]
	require.False(t, slots.enter(other, 4, now), "those that wait are asked in turn")
	require.Equal(t, []types.NamespacedName{other}, slots.next(4, now))
	require.True(t, slots.leave(inNamespace("many", 1)[0]))
	require.Equal(t, inNamespace("many", 3), slots.next(4, now))
}

func TestAFunctionWhosePodsDoNotStartKeepsNoSlot(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	stuck, next := inNamespace("stuck", 1)[0], inNamespace("shop", 1)[0]
	require.True(t, slots.enter(stuck, 1, now))
	require.False(t, slots.enter(next, 1, now))
	require.Empty(t, slots.next(1, now.Add(rolloutTimeout-time.Nanosecond)))
	require.Equal(t, []types.NamespacedName{next}, slots.next(1, now.Add(rolloutTimeout)))
}

func TestAFunctionThatGoesWaitsNoMore(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	all := inNamespace("shop", 1, 2, 3)
	for _, fn := range all {
		slots.enter(fn, 1, now)
	}
	require.True(t, slots.leave(all[1]))
	require.True(t, slots.leave(all[0]))
	require.Equal(t, all[2:], slots.next(1, now))
}

func TestMoreSlotsAreUsedAtOnce(t *testing.T) {
	t.Parallel()
	slots, now := newRolloutSlots(), noon()
	for i := range 6 {
		slots.enter(inNamespace(strconv.Itoa(i), 1)[0], 1, now)
	}
	require.Len(t, slots.next(4, now), 3)
}
