package eventbridge

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestPublishersAreRefusedBeforeTheStreamIsFull(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t)
	small := broker.DefaultStreamOptions()
	small.MaxBytes = 64 << 10
	require.NoError(t, w.conn.EnsureStreams(t.Context(), small))
	r := w.start(t, func(d *Deps, o *Options) {
		d.Storage = w.store
		o.Storage.Watermark = 0.5
	})

	for i := 0; fillOf(t, w) < 0.6; i++ {
		if status, _ := r.publish(t, strconv.Itoa(i)); status != http.StatusNoContent {
			break // it has polled already
		}
	}
	require.Eventually(t, func() bool {
		_, metrics := get(t, r.metricsURL)
		return strings.Contains(metrics, `rouse_eventbridge_stream_fill_ratio{stream="sap"} `+
			strconv.FormatFloat(fillOf(t, w), 'g', -1, 64))
	}, timeout, tick, "it knows how full the stream is")
	status, retryAfter := r.publish(t, "late")
	require.Equal(t, http.StatusInsufficientStorage, status)
	require.Equal(t, "10", retryAfter)
	require.Equal(t, http.StatusInsufficientStorage, r.post(t, "/shop/v1/events",
		`{"event-type":"a.b","event-type-version":"v1","event-time":"2026-01-02T03:04:05Z","data":1}`, nil))
	require.Equal(t, "the stream is nearly full and takes no new events until stored ones are delivered\n", r.refusal(t))
	require.Less(t, fillOf(t, w), 0.9, "the stream is not full")

	ev := cloudevent.Event{ID: "again", Source: "shop", Type: "order.received.v1"}
	require.NoError(t, w.store.Publish(t.Context(), &ev), "what comes back is stored")
	ready, _ := get(t, r.url+"/readyz")
	require.Equal(t, http.StatusOK, ready)
	_, metrics := get(t, r.metricsURL)
	for _, stream := range []string{"sap", "rouse-retries", "rouse-dead-letters"} {
		require.Contains(t, metrics, `rouse_eventbridge_stream_fill_ratio{stream="`+stream+`"}`)
	}
	require.Contains(t, metrics, `eventing_epp_requests_total{code="507",method="POST",path="/publish"}`)

	w.endpoints.Set(loopback.Ready(price.Address()))
	w.backlogIs(t, 0, 0)
	require.Eventually(t, func() bool {
		status, _ := r.publish(t, "after")
		return status == http.StatusNoContent
	}, timeout, tick, "it takes events again")
}

func fillOf(t *testing.T, w *fixture) float64 {
	t.Helper()
	fill, err := w.store.Fill(t.Context(), broker.DefaultStream)
	require.NoError(t, err)
	return fill
}

// refusal is the text that a publisher is refused with.
func (r *replica) refusal(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/publish",
		strings.NewReader(`{"specversion":"1.0","id":"1","source":"shop","type":"order.received.v1"}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/cloudevents+json")
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"), "%s %s", resp.Status, text)
	return string(text)
}
