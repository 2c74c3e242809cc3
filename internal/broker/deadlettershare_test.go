package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCutsOfTakesFromTheLargestHolderFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		held   map[string]int64
		excess int64
		want   map[string]int64
	}{
		"no holder":                    {nil, 10, map[string]int64{}},
		"one":                          {map[string]int64{"a": 100}, 10, map[string]int64{"a": 10}},
		"the largest alone":            {map[string]int64{"a": 100, "b": 50}, 50, map[string]int64{"a": 50}},
		"down to the next, then both":  {map[string]int64{"a": 100, "b": 50, "c": 10}, 70, map[string]int64{"a": 60, "b": 10}},
		"equals":                       {map[string]int64{"a": 50, "b": 50, "c": 49}, 20, map[string]int64{"a": 7, "b": 7, "c": 6}},
		"more than there is":           {map[string]int64{"a": 5, "b": 3}, 100, map[string]int64{"a": 5, "b": 3}},
		"many small ones lose nothing": {map[string]int64{"a": 1000, "b": 1, "c": 1, "d": 1}, 900, map[string]int64{"a": 900}},
		"what does not divide":         {map[string]int64{"a": 10, "b": 10}, 5, map[string]int64{"a": 3, "b": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, cutsOf(tc.held, tc.excess))
		})
	}
}
