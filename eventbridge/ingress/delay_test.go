package ingress

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// serveDelays delays what is due later than now, by a delay that fails with err.
func serveDelays(t *testing.T, publisher Publisher, err error) string {
	t.Helper()
	server := httptest.NewServer(New(Deps{
		Publisher: publisher, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		Delay: func(_ context.Context, ev *cloudevent.Event, due time.Time) (string, bool, error) {
			return "of-" + ev.ID, due.After(time.Now()), err
		},
	}, DefaultOptions()))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAnEventWithATimeGoesOnLater(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{headerDeliverAt: "2199-01-01T10:00:00+01:00", headerDeliverAfter: "1h"} {
		publisher := &fakePublisher{}
		status, _, body := request{header: binary(map[string]string{name: value}), body: "{}"}.send(t, serveDelays(t, publisher, nil))
		require.Equal(t, http.StatusAccepted, status, name)
		require.Contains(t, body, `{"id":"of-1","due":"`)
		require.Empty(t, publisher.events)
	}
	publisher := &fakePublisher{}
	status, _, _ := request{header: binary(map[string]string{headerDeliverAfter: "0s"}), body: "{}"}.send(t, serveDelays(t, publisher, nil))
	require.Equal(t, http.StatusNoContent, status, "it is due now")
	require.Empty(t, publisher.last(t).Extensions)
}

func TestATimeThatCannotBeReadIsRefused(t *testing.T) {
	t.Parallel()
	url := serveDelays(t, &fakePublisher{}, nil)
	for name, header := range map[string]map[string]string{
		"Rouse-Deliver-At must be a time":        {headerDeliverAt: "tomorrow"},
		"Rouse-Deliver-After must be a duration": {headerDeliverAfter: "-1h"},
		"set Rouse-Deliver-At or":                {headerDeliverAfter: "1h", headerDeliverAt: "2199-01-01T00:00:00Z"},
	} {
		status, _, body := request{header: binary(header), body: "{}"}.send(t, url)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, name)
	}
	status, _, body := request{path: "/shop/v1/events", header: binary(map[string]string{headerDeliverAfter: "1h"}), body: "{}"}.send(t, url)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "events of this path go on at once")
}

func TestWhatCannotBeDelayedSaysWhy(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		failure.ErrDelayedOtherwise: http.StatusConflict, failure.ErrDelayedShare: http.StatusInsufficientStorage, failure.ErrNotConnected: http.StatusBadGateway,
	} {
		status, _, _ := request{header: binary(map[string]string{headerDeliverAfter: "1h"}), body: "{}"}.send(t, serveDelays(t, &fakePublisher{}, err))
		require.Equal(t, want, status)
	}
	url, _ := serve(t, &fakePublisher{})
	status, _, body := request{header: binary(map[string]string{headerDeliverAfter: "1h"}), body: "{}"}.send(t, url)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "delays no events")
}

func TestABatchWithATimeHasAnAnswerForEachEvent(t *testing.T) {
	t.Parallel()
	publisher := &fakePublisher{}
	status, _, body := request{
		header: map[string]string{"Content-Type": typeBatch, headerDeliverAfter: "1h"},
		body:   `[{"specversion":"1.0","id":"1","source":"s","type":"t"},{"specversion":"1.0","id":"2","source":"s","type":"t"}]`,
	}.send(t, serveDelays(t, publisher, nil))
	require.Equal(t, http.StatusAccepted, status)
	require.Contains(t, body, `"id":"2","source":"s","status":202,"delayed":{"id":"of-2"`)
	require.Empty(t, publisher.events)
}
