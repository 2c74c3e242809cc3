package routing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplicasDivideALimitOfDeliveriesAndWhatIsHeldAhead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit, replicas  int
		deliveries, held int
	}{
		"the default, alone":               {10, 1, 10, 128},
		"the number of replicas not known": {10, 0, 10, 128},
		"the default over two":             {10, 2, 5, 64},
		"what cannot be divided is left":   {10, 3, 3, 42},
		"more replicas than deliveries":    {8, 20, 1, 6},
		"many":                             {10_000, 2, 5000, 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deliveries, held := Route{MaxInFlight: tc.limit}.Share(tc.replicas)
			require.Equal(t, []int{tc.deliveries, tc.held}, []int{deliveries, held})
		})
	}
}

func TestNothingIsHeldAheadWhereTheServerBoundsDeliveriesAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		route Route
		want  int
	}{
		"the default":    {Route{MaxInFlight: 10}, 128},
		"few":            {Route{MaxInFlight: 7}, 0},
		"one at a time":  {Route{MaxInFlight: 1}, 0},
		"ordered events": {Route{MaxInFlight: 100, Delivery: Delivery{OrderedBy: "key"}}, 0},
		"dead letters":   {Route{MaxInFlight: 100, OfDeadLetters: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.route.Ahead())
		})
	}
}
