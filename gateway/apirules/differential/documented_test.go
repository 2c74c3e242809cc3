package differential

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryDifferenceIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/apirule.md")
	require.NoError(t, err)
	rows := strings.Split(string(page), "\n")
	for _, d := range differences {
		row := "| " + d.subject + " | " + d.envoy + " | " + d.rouse + " | " + d.why + " |"
		require.True(t, slices.Contains(rows, row), "docs/apirule.md needs the row %s", row)
	}
}
