package broker

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const (
	// testTimeout is how long tests wait for what must happen; moment is how often
	// they poll.
	testTimeout = time.Minute
	moment      = 5 * time.Millisecond

	testStream = DefaultStream
)

func TestMain(m *testing.M) {
	// A server of a cluster that is stopped while it elects a leader may leave its clock running, and one that is stopped while it
	// makes a Raft group the store of it.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"))
}

// connect opens a connection that the end of the test closes.
func connect(t *testing.T, url string) *Conn {
	t.Helper()
	return connectAs(t, Options{URL: url, Name: t.Name()})
}

func connectAs(t *testing.T, options Options) *Conn {
	t.Helper()
	options.requestTimeout = cmp.Or(options.requestTimeout, testTimeout)
	conn, err := Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// start is a server with its streams, and a connection to it.
func start(t *testing.T, options ...natstest.Option) (*natstest.Server, *Conn) {
	t.Helper()
	server := natstest.Start(t, options...)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
	return server, conn
}

func awaitConnected(t *testing.T, conn *Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	require.NoError(t, conn.waitConnected(ctx))
}

// testStreams is small enough for every test machine.
func testStreams() StreamOptions {
	options := DefaultStreamOptions()
	options.MaxBytes = 64 << 20
	options.DeadLetterMaxBytes = 16 << 20
	return options
}

func ensureConsumer(t *testing.T, conn *Conn, consumer Consumer) {
	t.Helper()
	require.NoError(t, conn.EnsureConsumer(t.Context(), testStream, consumer))
}
