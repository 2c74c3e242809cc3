package broker

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestFillIsTheFullerOfBytesAndMessages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		maxBytes, maxMsgs int64
		want              float64
	}{
		"bytes":     {maxBytes: 10_000, maxMsgs: -1, want: 0.4},
		"messages":  {maxBytes: 10_000_000, maxMsgs: 5, want: 0.8},
		"no bounds": {maxBytes: -1, maxMsgs: -1, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, conn := start(t)
			_, err := conn.js.CreateStream(t.Context(), jetstream.StreamConfig{
				Name: "other", Subjects: []string{"other"}, MaxBytes: tc.maxBytes, MaxMsgs: tc.maxMsgs,
			})
			require.NoError(t, err)
			fill, err := conn.Fill(t.Context(), "other")
			require.NoError(t, err)
			require.Zero(t, fill)
			for range 4 {
				server.Publish(t, "other", make([]byte, 1000))
			}
			require.Eventually(t, func() bool { return streamInfo(t, conn, "other").State.Msgs == 4 }, testTimeout, moment)
			fill, err = conn.Fill(t.Context(), "other")
			require.NoError(t, err)
			require.InDelta(t, tc.want, fill, 0.05, "each message has some bytes of its own")
		})
	}
}

func TestFillIsAnErrorWithoutAConnection(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	_, err := conn.Fill(t.Context(), "nobodys")
	require.ErrorIs(t, err, ErrNoStream)
	server.Stop()
	require.Eventually(t, func() bool { return !conn.Connected() }, testTimeout, moment)
	_, err = conn.Fill(t.Context(), testStream)
	require.ErrorIs(t, err, ErrNotConnected)
}
