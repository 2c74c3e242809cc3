package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChangesNameWhatIsDifferent(t *testing.T) {
	t.Parallel()
	parse := func(text string) *Settings {
		read, err := Parse(text)
		require.NoError(t, err)
		return &read
	}
	before := parse("functionPublisherProxyAddress: http://a/publish\nscaling: {cooldownPeriod: 1m}")
	now := parse(`
functionPublisherProxyAddress: http://b/publish
functionTraceCollectorEndpoint: ""
scaling: {cooldownPeriod: 60s}
rollout: {maxFunctions: 3}
resourcesConfiguration: {function: {resources: {presets: {S: {requestCpu: 10m, requestMemory: 64Mi, limitCpu: "1", limitMemory: 128Mi}}}}}
`)
	require.Empty(t, Changes(before, before))
	require.Equal(t, []string{
		"Publisher address set from 'http://a/publish' to 'http://b/publish'",
		`Trace collector set from '' to '""'`,
		"Functions that follow at a time set from '' to '3'",
		"Profile S set from '' to 'cpu 10m to 1, memory 64Mi to 128Mi'",
	}, Changes(before, now))

	log := &Log{Level: "debug", Components: map[string]string{"scaler": "warn", "eventbridge": "error"}}
	require.Equal(t, []string{
		"Log level set from '' to 'debug'", "Log levels of components set from '' to 'eventbridge=error scaler=warn'",
	}, LogChanges(&Log{}, log))
}
