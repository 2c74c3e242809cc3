package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/command"
)

func TestCommandRejectsClustersOfKind(t *testing.T) {
	t.Setenv("ROUSE_CLUSTER", "kind")
	var out bytes.Buffer
	require.ErrorContains(t, dispatch(t.Context(), []string{"up"}, &out, command.NewProgress(&out)), "that of kind is e2e/kind.sh")
}

func TestCutAndMendNameANode(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"cut"}, {"mend"}, {"up", "rouse-2"}, {"cut", "rouse-2", "rouse-3"}, {}} {
		var out bytes.Buffer
		require.ErrorContains(t, dispatch(t.Context(), args, &out, command.NewProgress(&out)), "name one command, and for cut and mend a node", args)
	}
}
