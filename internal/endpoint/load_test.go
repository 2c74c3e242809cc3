package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLeastLoadedPicksTheFewestRequests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		inFlight []int
		next     int
		want     int
	}{
		"of none, none":                       {want: -1},
		"the only one, however busy":          {inFlight: []int{9}, next: 1, want: 0},
		"the idle one":                        {inFlight: []int{2, 1, 0, 3}, want: 2},
		"of equals, the next one":             {inFlight: []int{1, 1, 1}, next: 1, want: 1},
		"of equals, the first from next on":   {inFlight: []int{1, 1, 2}, next: 2, want: 0},
		"a next beyond the last is the first": {inFlight: []int{0, 0}, next: 2, want: 0},
		"a next of addresses that are gone":   {inFlight: []int{0, 0}, next: 7, want: 1},
		"a busy one is skipped":               {inFlight: []int{0, 5, 0}, next: 1, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Pool[struct{}]{next: tc.next}
			for _, requests := range tc.inFlight {
				p.usable = append(p.usable, &Member[struct{}]{inFlight: requests})
			}
			require.Equal(t, tc.want, p.leastLoaded())
		})
	}
}
