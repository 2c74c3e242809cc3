package httplimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAClientThatKeepsItsPaceIsNeverBehind(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000}
	for range 100 {
		require.Equal(t, now, m.Begin(now))
		require.Equal(t, now.UnixNano(), m.Since())
		now = now.Add(time.Second)
		m.End(now, 1000)
		require.Zero(t, m.Since())
		now = now.Add(time.Hour) // for which the server does not read
	}
}

func TestAClientThatTricklesFallsBehind(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000}
	for i := range 10 {
		require.Equal(t, now.Add(-time.Duration(i*999)*time.Millisecond), m.Begin(now))
		now = now.Add(time.Second)
		m.End(now, 1)
	}
	m.Begin(now)
	m.End(now, 5000)
	require.Equal(t, now.Add(-5*time.Second+10*time.Millisecond), m.Begin(now), "it catches up as fast as it sends")
	m.Reset()
	require.Equal(t, now, m.Begin(now))
}

func TestWhatWasSentAheadOfThePaceCountsForNothingLater(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000}
	m.Begin(now)
	m.End(now, 1<<30)
	m.Begin(now)
	now = now.Add(time.Second)
	m.End(now, 0)
	require.Equal(t, now.Add(-time.Second), m.Begin(now))
}

func TestAClientThatMayBeAheadStopsForAsLongAsItIs(t *testing.T) {
	t.Parallel()
	now, m := time.Unix(1000, 0), Meter{Rate: 1000, Ahead: 5 * time.Second}
	m.Begin(now)
	m.End(now, 3000)
	require.Equal(t, now.Add(3*time.Second), m.Begin(now))
	m.End(now, 1<<30)
	require.Equal(t, now.Add(5*time.Second), m.Begin(now))
}
