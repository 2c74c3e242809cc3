package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Publish sends bytes as they are, as a foreign client would, and returns when the server has them.
func (s *Server) Publish(t testing.TB, subject string, data []byte) {
	t.Helper()
	client, err := nats.Connect(s.URL())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.Publish(subject, data))
	require.NoError(t, client.Flush())
}
