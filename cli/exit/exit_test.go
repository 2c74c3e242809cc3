package exit

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCodeOfAnErrorSurvivesWrapping(t *testing.T) {
	t.Parallel()
	plain := errors.New("no")
	for name, tc := range map[string]struct {
		err  error
		want Code
	}{
		"no error":                {nil, OK},
		"an error without a code": {plain, Failed},
		"an error with a code":    {With(NotFound, plain), NotFound},
		"a wrapped error":         {fmt.Errorf("look: %w", Errorf(Refused, "the answer: %w", plain)), Refused},
		"the outermost counts":    {With(Unreachable, With(Usage, plain)), Unreachable},
		"no error with a code":    {With(Usage, nil), OK},
	} {
		require.Equal(t, tc.want, CodeOf(tc.err), name)
	}
	require.ErrorIs(t, With(Usage, plain), plain)
}

func TestReportedErrorsKeepTheirCode(t *testing.T) {
	t.Parallel()
	require.True(t, IsReported(fmt.Errorf("run: %w", Reported(errors.New("no")))))
	require.Equal(t, Refused, CodeOf(Reported(Errorf(Refused, "no"))))
	require.Equal(t, Failed, CodeOf(Reported(errors.New("no"))))
	require.False(t, IsReported(errors.New("no")))
	require.NoError(t, Reported(nil))
}
