package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASinkThatStrugglesGetsOneDeliveryAtATimeAndThenMore(t *testing.T) {
	t.Parallel()
	w := newWindow(16)
	for range 15 {
		require.Zero(t, w.strained(), "a few failures say nothing")
		require.Equal(t, 16, w.limit)
	}
	var pauses []time.Duration
	for range 6 {
		pauses = append(pauses, w.strained())
		require.Equal(t, 1, w.limit)
	}
	require.Equal(t, []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second, time.Second,
	}, pauses)

	for _, want := range []int{2, 4, 8, 16, 16} { // one round of as many deliveries as the window lets
		for range w.limit {
			w.answered()
		}
		require.Equal(t, want, w.limit)
	}
	require.Zero(t, w.strained(), "the count begins again")
}

func TestARateSpreadsDeliveries(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := newRate(100)
	for range 11 { // a tenth of a second's worth, and the one that is due
		require.Zero(t, r.reserve(now))
	}
	require.Equal(t, 10*time.Millisecond, r.reserve(now))
	require.Equal(t, 10*time.Millisecond, r.reserve(now), "asking does not count")
	require.Zero(t, r.reserve(now.Add(10*time.Millisecond)))
	require.Positive(t, r.reserve(now.Add(10*time.Millisecond)))

	unlimited := newRate(0)
	for range 1000 {
		require.Zero(t, unlimited.reserve(now))
	}
}
