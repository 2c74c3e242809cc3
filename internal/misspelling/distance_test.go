package misspelling

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDistanceCountsLettersWithoutRegardToCase(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "main"}: 4, {"main", ""}: 4, {"main", "MAIN"}: 0, {"mian", "main"}: 2, {"man", "main"}: 1, {"kitten", "sitting"}: 3,
	} {
		require.Equal(t, want, Distance(pair[0], pair[1]), "%v", pair)
	}
}
