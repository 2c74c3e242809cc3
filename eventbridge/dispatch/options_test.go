package dispatch

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestDefaultOptionsAreValidAndRetryForAboutHalfAnHour(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	require.NoError(t, options.Validate())
	var total time.Duration
	for attempt := 1; attempt < options.MaxAttempts; attempt++ {
		total += options.Backoff.Delay(attempt, 0, 0.5)
	}
	require.InDelta(t, 33*time.Minute, total, float64(2*time.Minute))
}

func TestOptionsNameEveryLimitThatCannotWork(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	options.BindFlags(fs)
	require.NoError(t, fs.Parse([]string{
		"--delivery-max-in-flight=0", "--delivery-max-attempts=0", "--delivery-backoff=1m", "--delivery-backoff-max=1s",
		"--delivery-ack-wait=1ms", "--delivery-drain-timeout=-1s",
	}))
	err := options.Validate()
	for _, flag := range []string{"max-in-flight", "max-attempts", "backoff", "ack-wait", "drain-timeout"} {
		require.ErrorContains(t, err, "--delivery-"+flag)
	}
}
