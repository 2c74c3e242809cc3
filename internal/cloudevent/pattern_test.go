package cloudevent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAStarEndsAPatternOfTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pattern, eventType string
		want               bool
	}{
		"the same":              {"order.paid", "order.paid", true},
		"another":               {"order.paid", "order.sent", false},
		"a longer one":          {"order", "order.paid", false},
		"a beginning":           {"order.*", "order.paid", true},
		"another beginning":     {"order.*", "stock.moved", false},
		"all":                   {"*", "order.paid", true},
		"a star in the type":    {"order.*", "order.*", true},
		"an empty pattern":      {"", "order.paid", false},
		"an empty type for all": {"*", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, MatchesType(c.pattern, c.eventType))
		})
	}
	require.True(t, IsTypePattern("order.*"))
	require.True(t, IsTypePattern(""))
	require.False(t, IsTypePattern("order.*.v1"))
	require.False(t, IsTypePattern("order.**"))
}
