package sink

import (
	"net/url"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/sinktest"
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
			require.Equal(t, tc.want, leastLoaded(len(tc.inFlight), tc.next, func(i int) int { return tc.inFlight[i] }))
		})
	}
}

func TestAPoolCountsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	p := newPool(&url.URL{Scheme: "http", Host: "price", Path: "/in"}, false, nil, logr.Discard())
	require.Nil(t, p.pick())
	both := []routing.Endpoint{sinktest.Ready("a:1"), sinktest.Ready("b:1")}
	p.apply(both)
	first, second := p.pick(), p.pick()
	require.Equal(t, "http://a:1/in", first.url.String())
	require.Equal(t, "http://b:1/in", second.url.String())
	p.done(second)
	require.Same(t, second, p.pick())
	require.Same(t, first, p.pick(), "both have one, and it is the next")
	p.done(first)
	p.apply(both)
	require.Same(t, second, p.pick(), "news of the same addresses forget nothing, and it is the next")
	p.done(second)

	p.apply(both[:1])
	p.done(second) // the answer of an address that is gone
	require.Same(t, first, p.pick())
}
