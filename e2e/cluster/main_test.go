package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/progress"
)

func TestClusterIsLocalUnlessKindIsAskedFor(t *testing.T) {
	t.Parallel()
	for wanted, tc := range map[string]struct {
		kind  bool
		state string
	}{"": {}, "local": {}, "kind": {kind: true, state: "/cache/kind"}} {
		getenv, withKind, err := environment(func(name string) string {
			return map[string]string{"ROUSE_CLUSTER": wanted, "ROUSE_CACHE": "/cache"}[name]
		})
		require.NoError(t, err, wanted)
		require.Equal(t, tc.kind, withKind, wanted)
		require.Equal(t, tc.state, getenv("ROUSE_STATE"), wanted)
	}
	_, _, err := environment(func(string) string { return "production" })
	require.ErrorContains(t, err, `can be local or kind, not "production"`)
}

func TestCutAndMendNameANode(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"cut"}, {"mend"}, {"up", "rouse-2"}, {"cut", "rouse-2", "rouse-3"}, {}} {
		var out bytes.Buffer
		require.ErrorContains(t, dispatch(t.Context(), args, &out, progress.New(&out)), "name one command, and for cut and mend a node", args)
	}
}
