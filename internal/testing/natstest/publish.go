package natstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// DeleteStream deletes a stream with its consumers, as an administrator would by mistake.
func (s *Server) DeleteStream(t testing.TB, name string) {
	t.Helper()
	client, err := nats.Connect(s.URL())
	require.NoError(t, err)
	defer client.Close()
	js, err := jetstream.New(client)
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), name))
}

// RemoveConsumerFiles deletes the files of a consumer. The consumer works until the server is restarted.
func (s *Server) RemoveConsumerFiles(t testing.TB, stream, consumer string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.options.StoreDir, "jetstream", "*", "streams", stream, "obs", consumer))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.RemoveAll(found[0]))
}
