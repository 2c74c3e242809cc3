package kedarules

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffDoublesUntilAStreamEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	b := Backoff{First: FirstStreamBackoff, Last: LastStreamBackoff}
	var pauses []time.Duration
	for _, endedWithoutError := range []bool{false, false, false, false, false, false, false, true, false, true, true} {
		pauses = append(pauses, b.Next(endedWithoutError)/time.Second)
	}
	require.Equal(t, []time.Duration{2, 4, 8, 16, 32, 60, 60, 2, 4, 2, 2}, pauses)
}
