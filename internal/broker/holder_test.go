package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASourceAsksForMoreWhenHalfOfWhatItHoldsAheadIsFree(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ deliveries, ahead, held, want int }{
		"at first, for all":                             {10, 64, 0, 74},
		"not while it holds more than half of it ahead": {10, 64, 43, 0},
		"then for what is free":                         {10, 64, 42, 32},
		"a slow sink's deliveries are replaced by ones": {10, 1, 10, 1},
		"and never exceed what may be held":             {10, 1, 11, 0},
		"nothing ahead":                                 {10, 0, 9, 1},
		"after the limit was lowered":                   {5, 8, 30, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, askFor(tc.deliveries, tc.ahead, tc.held))
		})
	}
}

func TestWhatIsHeldAheadFollowsThePaceOfTheSink(t *testing.T) {
	t.Parallel()
	h := newHolder(func() (deliveries, ahead int) { return 10, 128 })
	now := h.since
	step := func(after time.Duration, released int64) int {
		now = now.Add(after)
		h.released.Add(released)
		h.measure(now)
		return h.pace
	}
	require.Equal(t, 0, step(pacePeriod/2, 100), "too early to say")
	require.Equal(t, 100, step(pacePeriod/2, 0))
	require.Equal(t, 200, step(2*pacePeriod, 400))
	require.Equal(t, 100, step(pacePeriod, 0), "a pause in a burst")
	require.Equal(t, 50, step(pacePeriod, 30))
	require.Equal(t, 1, step(time.Second, 100))
}

func TestAMessageIsHeldUntilItIsFreedOnce(t *testing.T) {
	t.Parallel()
	h := newHolder(func() (deliveries, ahead int) { return 1, 0 })
	m := &Message{}
	h.add(m)
	require.Zero(t, h.request(5))
	h.free(m)
	<-h.freed
	require.Equal(t, 1, h.request(5))
	h.free(m)
	require.Equal(t, 1, h.request(5), "it was detached, and then released")
}
