package convert

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// endless is an input without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func TestManifestsAreReadOfABoundedInput(t *testing.T) {
	t.Parallel()
	_, _, err := ReadFile(endless{}, "-")
	require.ErrorContains(t, err, "the input is larger than 64 MiB: take several")
}
