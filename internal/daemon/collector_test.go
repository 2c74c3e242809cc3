package daemon

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGarbageIsCollectedLessOftenWhileLittleMemoryIsInUse(t *testing.T) {
	t.Parallel()
	const limit = 460 << 20
	for name, tc := range map[string]struct {
		used uint64
		want int
	}{
		"before the first collection":                   {0, 400},
		"a heap that is small five times over":          {40 << 20, 400},
		"a heap that reaches half of the limit earlier": {60 << 20, 275},
		"a quarter of the limit":                        {115 << 20, 100},
		"half of the limit":                             {230 << 20, 75},
		"more than the limit":                           {500 << 20, 75},
		"more than there can be":                        {math.MaxUint64, 75},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, garbagePercent(tc.used, limit))
		})
	}
}

func TestTheCollectorIsPacedAfterEachCollectionUntilTheEnd(t *testing.T) { //nolint:paralleltest // it changes the process's collector
	before, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(1<<30)
	defer func() {
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(limit)
	}()
	t.Setenv("GOGC", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- PaceCollector(ctx) }()
	percent := func(want uint64) func() bool {
		return func() bool {
			runtime.GC()
			found := []metrics.Sample{{Name: "/gc/gogc:percent"}}
			metrics.Read(found)
			return found[0].Value.Uint64() == want
		}
	}
	require.Eventually(t, percent(mostGarbage), time.Minute, time.Millisecond)
	much := make([]byte, 600<<20)
	require.Eventually(t, percent(leastGarbage), time.Minute, time.Millisecond, "much is in use")
	runtime.KeepAlive(much)
	require.Eventually(t, percent(mostGarbage), time.Minute, time.Millisecond, "it is free again")
	cancel()
	require.NoError(t, <-ended)
}

func TestTheCollectorIsLeftAloneWithoutALimit(t *testing.T) { //nolint:paralleltest // as above
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, PaceCollector(ctx))
	require.Equal(t, 100, debug.SetGCPercent(100))
}
