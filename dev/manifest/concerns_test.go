package manifest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProblemConcernsWhatItMayHide(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		problem Problem
		want    bool
	}{
		"the object itself":                 {Problem{Object: "Function orders/pricing"}, true},
		"a file that cannot be read":        {Problem{}, true},
		"another object":                    {Problem{Object: "Function orders/price"}, false},
		"another kind":                      {Problem{Object: "Subscription orders/pricing"}, false},
		"a warning about it hides nothing":  {Problem{Object: "Function orders/pricing", Warning: true}, false},
		"a warning about a file hides none": {Problem{Warning: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.problem.Concerns("Function", "orders", "pricing"))
		})
	}
}
