package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestWarnings(t *testing.T) {
	t.Parallel()
	s := newScope(func(s *scope) { s.fn.Spec.Runtime = v1alpha2.RuntimeNodeJS20 })
	setStatus(s)
	require.Equal(t, "Warning: function configured, runtime nodejs20 is deprecated and will be removed in the future",
		s.fn.Status.Conditions[0].Message)
}

func TestOptions(t *testing.T) {
	t.Parallel()
	options := testOptions()
	require.NoError(t, options.Validate())

	options = Options{RuntimeImages: map[string]string{"nodejs22": " "}, DefaultProfile: "XXL", Build: BuildOptions{PerNamespace: 1}}
	err := options.Validate()
	for _, want := range []string{
		"--runtime-image", "--publisher-address", "--default-profile", "--scaler-address", "--scaling-polling-interval",
		"--function-concurrent-reconciles", "--builder-image", "--default-build-profile", "--max-simultaneous-builds", "--build-deadline",
		"--max-image-size", "--builds-per-namespace",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestASlotLastsForTheWaitAndTheBuild(t *testing.T) {
	t.Parallel()
	options := DefaultOptions().Build
	require.Equal(t, options.Deadline+10*time.Minute, options.Limits().Longest)
}
