package ingress

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	defaults := DefaultOptions()
	require.NoError(t, defaults.Validate())
	for name, tc := range map[string]struct {
		arguments []string
		wantErr   string
	}{
		"no bytes":                       {[]string{"--max-request-size=0"}, "--max-request-size must be at least 1"},
		"batches without bytes":          {[]string{"--max-batch-size=0"}, "--max-batch-size must be at least 1"},
		"batches without events":         {[]string{"--max-batch-events=0"}, "--max-batch-events must be at least 1"},
		"no connections":                 {[]string{"--publish-max-connections=0"}, "--publish-max-connections must be at least 1"},
		"less memory than for one event": {[]string{"--publish-max-bytes=65535", "--max-batch-size=1"}, "--publish-max-bytes must be at least"},
		"less memory than for one batch": {[]string{"--publish-max-bytes=1000000"}, "--publish-max-bytes must be at least"},
		"less than no series":            {[]string{"--event-type-series=-1"}, "--event-type-series must not be negative"},
		"events larger than batches":     {[]string{"--max-request-size=2000000"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			options.BindFlags(flags)
			require.NoError(t, flags.Parse(tc.arguments))
			if err := options.Validate(); tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
