package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// SyncInterval is what a server with this configuration has as sync_interval: "always", or a duration.
func SyncInterval(t testing.TB, config string) string {
	t.Helper()
	parsed := &server.Options{}
	require.NoError(t, parsed.ProcessConfigString(config), "parse the server's configuration")
	if parsed.SyncAlways {
		return "always"
	}
	return parsed.SyncInterval.String()
}
