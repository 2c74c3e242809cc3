package builder

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/fips"
)

func TestProgramsOfTheImageChooseTheirOwnFIPSMode(t *testing.T) {
	t.Parallel()
	given := []string{"PATH=/bin", "GODEBUG=fips140=only,tlsmlkem=0", "GODEBUGGER=x"}
	require.Equal(t, []string{"PATH=/bin", "GODEBUGGER=x"}, environment(given, fips.Only))
	require.Equal(t, []string{"PATH=/bin", "GODEBUGGER=x"}, environment(given, fips.On))
	require.Equal(t, given, environment(given, fips.Off), "what an image says is not ours to take away")
	require.Len(t, given, 3)
}
