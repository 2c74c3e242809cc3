package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/target"
)

func TestURLOfAFunctionIsOneThatTheReaderOfTheListCanCall(t *testing.T) {
	t.Parallel()
	const inside, outside = "http://price.shop.svc.cluster.local", "https://price.example.com/"
	for name, tc := range map[string]struct {
		exposed []string
		local   bool
		want    string
	}{
		"in local mode its port":           {nil, true, inside},
		"in a cluster none":                {nil, false, ""},
		"in a cluster that of its APIRule": {[]string{outside}, false, outside},
		"the first of several":             {[]string{outside, "b", "c"}, false, outside + " (+2)"},
		"an APIRule's before its port":     {[]string{outside}, true, outside},
	} {
		require.Equal(t, tc.want, reachableURL(&target.Function{URL: inside, Exposed: tc.exposed}, tc.local), name)
	}
}
