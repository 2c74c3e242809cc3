package rouse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultOptionsReadTheEnvironment(t *testing.T) {
	t.Parallel()
	options, err := DefaultOptions(func(string) string { return "" })
	require.NoError(t, err)
	require.Equal(t, Options{Runtimes: DefaultRuntimes(), NATSReplicas: 1}, options)
	env := map[string]string{"ROUSE_RUNTIMES": "nodejs20,python314", "NATS_REPLICAS": "3"}
	options, err = DefaultOptions(func(name string) string { return env[name] })
	require.NoError(t, err)
	require.NoError(t, options.Validate())
	require.Equal(t, Options{Runtimes: []string{"nodejs20", "python314"}, NATSReplicas: 3}, options)
}

func TestValidateListsAllProblems(t *testing.T) {
	t.Parallel()
	options := Options{NATSReplicas: 2, Runtimes: []string{"ruby33"}}
	err := options.Validate()
	require.ErrorContains(t, err, "NATS replicas can be 1 or 3, not 2")
	require.ErrorContains(t, err, "ruby33")
}
