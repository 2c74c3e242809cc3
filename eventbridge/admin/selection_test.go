package admin

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeadLetterSelectionRefusesInvalidNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selection Selection
		want      string
	}{
		"a wildcard for a namespace":     {Selection{Namespace: "*"}, "namespace:"},
		"a dot in a namespace":           {Selection{Namespace: "a.b"}, "namespace:"},
		"a wildcard for a Subscription":  {Selection{Namespace: "a", Subscription: ">"}, "subscription:"},
		"an empty token":                 {Selection{Namespace: "a", Subscription: "b..c"}, "subscription:"},
		"a Subscription of no namespace": {Selection{Subscription: "b"}, "say its namespace"},
		"a name with dots":               {Selection{Namespace: "a", Subscription: "b.c"}, ""},
		"nothing":                        {Selection{}, ""},
	} {
		err := tc.selection.Validate()
		if tc.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tc.want, name)
		}
	}
}
