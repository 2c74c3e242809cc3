package eventbridge

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
)

func order(id string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"shop","type":"order.received.v1","data":{"order":"` + id + `"}}`
}

func TestABatchThatIsSentAgainIsStoredOnce(t *testing.T) {
	t.Parallel()
	const events = 200
	sink := loopback.StartSink(t, nil)
	w := newFixture(t)
	r := w.start(t)
	var batch []string
	for i := range events {
		batch = append(batch, order(strconv.Itoa(i)))
	}
	batch[events/2] = `{"specversion":"1.0","id":"bad"}`
	for range 3 {
		status, body := r.publishBatch(t, batch...)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, `{"id":"bad","status":400,"reason":"source: REQUIRED\ntype: MUST be a non-empty string"}`)
		require.Contains(t, body, `{"id":"199","source":"shop","status":204}`)
	}
	w.backlogIs(t, events-1, 0)
	batch[events/2] = order(strconv.Itoa(events / 2))
	status, body := r.publishBatch(t, batch...)
	require.Equal(t, http.StatusNoContent, status, body)
	w.backlogIs(t, events, 0)

	w.endpoints.Set(loopback.Ready(sink.Address()))
	w.backlogIs(t, 0, 0)
	require.Len(t, sink.Deliveries(), events)
}

func TestEachEventOfABatchHasItsSpan(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	collector := otlptest.Start(t)
	tracer := newTracer(t, collector, 1)
	r := w.start(t, func(deps *Deps, _ *Options) { deps.Tracer = tracer })
	status, _ := r.publishBatch(t, order("1"), `{}`, order("2"))
	require.Equal(t, http.StatusBadRequest, status)
	w.backlogIs(t, 2, 0)
	require.NoError(t, r.stop())
	require.NoError(t, tracer.Close(t.Context()))
	var names []string
	for _, span := range collector.Spans() {
		names = append(names, span.GetName())
	}
	require.Equal(t, []string{"publish order.received.v1", "publish order.received.v1"}, names)
}

// filled is a store that is full.
type filled struct{}

func (filled) Streams() []string                             { return []string{"sap"} }
func (filled) Fill(context.Context, string) (float64, error) { return 1, nil }

func TestABatchIsRefusedBeforeTheStreamIsFull(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t, func(d *Deps, _ *Options) { d.Storage = filled{} })
	var body string
	require.Eventually(t, func() (refused bool) {
		var status int
		status, body = r.publishBatch(t, order("1"), `{}`)
		return status == http.StatusInsufficientStorage
	}, timeout, tick)
	require.JSONEq(t, `[{"id":"1","source":"shop","status":507,`+
		`"reason":"the stream is nearly full and takes no new events until stored ones are delivered"},`+
		`{"status":400,"reason":"the body is not a structured CloudEvent"}]`, body)
}

func TestABatchWithoutNATSMayBeSentAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t)
	status, body := r.publishBatch(t, order("1"))
	require.Equal(t, http.StatusNoContent, status, body)
	w.nats.Stop()
	require.Eventually(t, func() bool {
		status, body = r.publishBatch(t, order("1"), order("2"))
		return status == http.StatusBadGateway
	}, timeout, tick)
	require.Contains(t, body, `{"id":"2","source":"shop","status":502,"reason":"no connection to NATS JetStream server"}`)
	w.nats.Restart()
	require.Eventually(t, func() bool {
		status, body = r.publishBatch(t, order("1"), order("2"))
		return status == http.StatusNoContent
	}, timeout, tick, "%s", body)
	w.backlogIs(t, 2, 0)
}
