package nodejs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersOfASourceMapAreThoseOfItsSpecification(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]string{0: "A", 1: "C", 15: "e", 16: "gB", 1000: "w+B"} {
		require.Equal(t, want, variableLength(number), number)
	}
}
