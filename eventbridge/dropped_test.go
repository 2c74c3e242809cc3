package eventbridge

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestDeadLettersThatAreDroppedAreCounted(t *testing.T) {
	t.Parallel()
	refusing := loopback.StartSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) })
	w := newFixture(t, loopback.Ready(refusing.Address()))
	w.nats.Change(natstest.WithMaxPayload(32 << 10))
	streams := broker.DefaultStreamOptions()
	streams.DeadLetterMaxBytes = 64 << 10
	require.Eventually(t, func() bool { return w.conn.EnsureStreams(t.Context(), streams) == nil }, timeout, tick)
	r := w.start(t)
	r.publishMany(t, 0, 200)
	w.backlogIs(t, 0, 0)
	_, metrics := get(t, r.metricsURL)
	require.Contains(t, metrics, `rouse_eventbridge_dead_letters_total{namespace="shop",reason="SinkRejected",subscription="orders"} 200`)
	require.Contains(t, metrics, `rouse_eventbridge_dead_letters_dropped_total{namespace="shop"}`)
	kept := w.deadLetters(t)
	require.Positive(t, kept)
	require.Less(t, kept, 200)
}
