package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/settings"
)

func TestAControllerWhoseWorkersAllHangIsNotHealthy(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.MaxConcurrentReconciles = 2
	live := NewLive(options, false)
	now := noon()
	live.workers.now = func() time.Time { return now }
	later := func(d time.Duration) error {
		now = now.Add(d)
		return live.Healthy(nil)
	}
	live.workers.begin()
	end := live.workers.begin()
	require.NoError(t, later(time.Hour), "nothing is asked for")
	live.Apply(&settings.Settings{LivenessTimeout: 10 * time.Second})
	require.EqualError(t, later(0), "all workers of the Function controller hang for 1h0m0s")
	end()
	require.NoError(t, later(time.Hour), "one is free")
	live.workers.begin()
	require.NoError(t, later(shortestHang), "less than a minute counts as one")
	require.Error(t, later(time.Second))
	live.Apply(&settings.Settings{LivenessTimeout: time.Hour})
	require.NoError(t, later(time.Minute))
}
