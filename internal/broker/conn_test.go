package broker

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestConnectSurvivesAServerThatComesLater(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	server.Stop()
	conn := connect(t, server.URL())
	connects := make(chan struct{}, 10)
	conn.OnConnect(func() { connects <- struct{}{} })

	require.False(t, conn.Connected())
	require.ErrorIs(t, conn.EnsureStreams(t.Context(), testStreams()), ErrNotConnected)
	_, err := conn.Backlog(t.Context(), testStream, "anyone")
	require.ErrorIs(t, err, ErrNotConnected)
	require.NotErrorIs(t, err, ErrConsumerNotFound)

	server.Run()
	await(t, connects)
	require.True(t, conn.Connected())
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))

	server.Restart()
	await(t, connects)
	require.True(t, conn.Connected())
}

func TestOnConnectIsCalledWhenAlreadyConnected(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	connects := make(chan struct{}, 10)
	conn.OnConnect(func() { connects <- struct{}{} })
	await(t, connects)
}

func TestConnectUsesTheCredentialsOfTheURL(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.WithUser("rouse", "secret"))
	stranger := connect(t, server.URL())
	friend := connect(t, "nats://rouse:secret@"+server.URL()[len("nats://"):])
	awaitConnected(t, friend)
	require.False(t, stranger.Connected())
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Connect(cancelled, DefaultOptions(), logr.Discard())
	require.ErrorIs(t, err, context.Canceled)

	_, err = Connect(t.Context(), Options{URL: "nats://127.0.0.1:1", CAFile: "missing.pem"}, logr.Discard())
	require.Error(t, err)
}

func TestCloseEndsInTimeWithoutAServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	start := time.Now()
	require.NoError(t, conn.Close(ctx))
	require.Less(t, time.Since(start), testTimeout/2)
	require.False(t, conn.Connected())
}

func await[T any](t *testing.T, events <-chan T) T {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(testTimeout):
		require.FailNow(t, "it did not happen in time")
		panic("unreachable")
	}
}
