package eventbridge

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// refusing answers as the event's id says.
func refusing(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Ce-Id") {
	case "refused":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case "failing":
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func TestStreamsThatVanishUnderARunningBridgeAreUsedWhenTheyAreBack(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, refusing)
	w := newFixture(t, loopback.Ready(price.Address()))
	r := w.start(t)
	r.publishMany(t, 0, 3)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)
	for round := range 2 {
		for _, stream := range []string{broker.DefaultStream, broker.RetryStream, broker.DeadLetterStream} {
			w.nats.DeleteStream(t, stream)
		}
		status, _ := r.publish(t, "nowhere")
		require.Equal(t, http.StatusGatewayTimeout, status)

		ensureStream(t, w.conn) // as the controller does
		ensureConsumer(t, w.conn, orders(sinkURL), w.ackWait)
		for _, id := range []string{"refused", "failing", "fine"} {
			status, _ := r.publish(t, id)
			require.Equal(t, http.StatusNoContent, status)
		}
		price.Await(t, 3+(round+1)*(2+4)) // the failing one has four attempts
		require.Eventually(t, func() bool { return w.deadLetters(t) == 2 }, timeout, tick)
		w.backlogIs(t, 0, 0)
	}
	require.Equal(t, map[string]int{"0": 1, "1": 1, "2": 1, "refused": 2, "failing": 8, "fine": 2}, price.Deliveries())
}

func TestNothingEndsWhileNeitherRetriesNorDeadLettersCanBeStored(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *fixture){
		"for their streams are missing": func(t *testing.T, w *fixture) {
			t.Helper()
			w.nats.DeleteStream(t, broker.RetryStream)
			w.nats.DeleteStream(t, broker.DeadLetterStream)
		},
		"for the stream of retries is full": func(t *testing.T, w *fixture) {
			t.Helper()
			options := broker.DefaultStreamOptions()
			options.RetryMaxBytes = 1
			require.NoError(t, w.conn.EnsureStreams(t.Context(), options))
			w.nats.DeleteStream(t, broker.DeadLetterStream)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			price := loopback.StartSink(t, refusing)
			w := newFixture(t, loopback.Ready(price.Address()))
			spoil(t, w)
			r := w.start(t)
			for _, id := range []string{"refused", "failing", "fine"} {
				status, _ := r.publish(t, id)
				require.Equal(t, http.StatusNoContent, status)
			}
			require.Eventually(t, func() bool {
				calls := price.Deliveries()
				return calls["refused"] > 2 && calls["failing"] > 5 // more than its attempts: none of them counts
			}, timeout, tick)
			w.backlogIs(t, 0, 2)

			ensureStream(t, w.conn)
			require.Eventually(t, func() bool { return w.deadLetters(t) == 2 }, timeout, tick)
			w.backlogIs(t, 0, 0)
			require.Equal(t, 1, price.Deliveries()["fine"])
			require.Eventually(t, func() bool {
				waiting, err := w.conn.WaitingRetries(t.Context())
				return err == nil && len(waiting) == 0
			}, timeout, 10*time.Millisecond)
		})
	}
}
