package daemon

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGarbageIsCollectedLessOftenWhileLittleMemoryIsInUse(t *testing.T) {
	t.Parallel()
	const limit = 460 << 20
	for name, tc := range map[string]struct {
		live uint64
		want int
	}{
		"before the first collection":                   {0, 400},
		"a heap that is small five times over":          {40 << 20, 400},
		"a heap that reaches half of the limit earlier": {60 << 20, 250},
		"a quarter of the limit":                        {115 << 20, 100},
		"half of the limit":                             {230 << 20, 100},
		"more than the limit":                           {500 << 20, 100},
		"more than there can be":                        {math.MaxUint64, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, garbagePercent(tc.live, limit))
		})
	}
}
