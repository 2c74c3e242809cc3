package nats

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/never"
)

const testTimeout = time.Minute

func start(t *testing.T, folder string) *Server {
	t.Helper()
	s, err := Start(Options{Folder: folder, Token: "secret", MaxBytes: 2 << 30, Log: logr.Discard()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close(t.Context()) })
	return s
}

func connect(t *testing.T, s *Server, token string) *broker.Conn {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	conn, err := broker.Connect(t.Context(), broker.Options{URL: s.URL(), Name: "dev", TokenFile: file}, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func TestServerListensOnLoopbackAndNeedsTheToken(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	address, err := url.Parse(s.URL())
	require.NoError(t, err)
	require.Equal(t, host, address.Hostname())
	require.Eventually(t, connect(t, s, "secret").Connected, testTimeout, time.Millisecond)
	never.Happens(t, connect(t, s, "wrong").Connected, 200*time.Millisecond, 10*time.Millisecond)
}

func TestStreamsSurviveARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := start(t, folder)
	conn := connect(t, s, "secret")
	require.Eventually(t, conn.Connected, testTimeout, time.Millisecond)
	streams := broker.DefaultStreamOptions()
	require.NoError(t, conn.EnsureStreams(t.Context(), streams))
	consumer := broker.Consumer{Name: "c", Subjects: []string{"kyma.shop.order.received"}}
	require.NoError(t, conn.EnsureConsumer(t.Context(), streams.Name, consumer))
	publisher := broker.NewPublisher(conn, broker.DefaultPublisherOptions())
	event, err := cloudevent.FromStructured([]byte(`{"specversion":"1.0","id":"1","source":"shop","type":"order.received"}`))
	require.NoError(t, err)
	require.NoError(t, publisher.Publish(t.Context(), &event))
	require.NoError(t, conn.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))

	reconnected := connect(t, start(t, folder), "secret")
	require.Eventually(t, reconnected.Connected, testTimeout, time.Millisecond)
	backlog, err := reconnected.Backlog(t.Context(), streams.Name, "c")
	require.NoError(t, err)
	require.EqualValues(t, 1, backlog.Pending)
}

func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Start(Options{Folder: filepath.Join(file, "nats"), Log: logr.Discard()})
	require.ErrorContains(t, err, file)
}
