package eventbridge

import (
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
)

// await returns the first record of a kind about an event. The sink may have the event before its publisher gets the
// confirmation.
func await(t *testing.T, j *journal.Journal, id string, kind journal.Kind) journal.Record {
	t.Helper()
	var records []journal.Record
	require.Eventually(t, func() bool {
		records = j.Recent(journal.Query{ID: id, Kinds: []journal.Kind{kind}})
		return len(records) > 0
	}, timeout, tick)
	return records[0]
}

func TestTheJournalRecordsTheDeliveryOfAnEvent(t *testing.T) {
	t.Parallel()
	answers := make(chan int, 2)
	answers <- http.StatusInternalServerError
	answers <- http.StatusBadRequest
	price := loopback.StartSink(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case status := <-answers:
			w.WriteHeader(status)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	w := newFixture(t, loopback.Ready(price.Address()))
	j := journal.New(100)
	r := w.start(t, func(d *Deps, _ *Options) { d.Journal = j })
	status, _ := r.publish(t, "1")
	require.Equal(t, http.StatusNoContent, status)

	stored, retry, deadLetter := await(t, j, "1", journal.Stored), await(t, j, "1", journal.Retry), await(t, j, "1", journal.DeadLettered)
	require.Len(t, j.Recent(journal.Query{ID: "1"}), 3)
	require.Equal(t, "shop", stored.Source)
	require.Equal(t, "order.received.v1", stored.Type)
	require.Regexp(t, "^[0-9a-f]{32}$", stored.Trace, "an event without a trace gets one")
	require.Positive(t, stored.Took)

	require.Equal(t, stored.Trace, retry.Trace)
	require.Equal(t, "shop", retry.Namespace)
	require.Equal(t, "orders", retry.Subscription)
	require.Equal(t, "shop/price", retry.Sink)
	require.Equal(t, 1, retry.Attempt)
	require.Equal(t, http.StatusInternalServerError, retry.Status)
	require.Equal(t, "SinkFailed", retry.Reason)
	require.Equal(t, "sink failed with the event", retry.Message)
	require.True(t, retry.Due.After(retry.Began))
	require.False(t, retry.Stored.IsZero())

	require.Equal(t, 2, deadLetter.Attempt)
	require.Equal(t, http.StatusBadRequest, deadLetter.Status)
	require.Equal(t, "SinkRejected", deadLetter.Reason)
	require.Equal(t, "sink refused the event", deadLetter.Message)
	require.Equal(t, retry.Stored.UTC(), deadLetter.Stored.UTC(), "a retry records when its event was first stored")

	_, _ = r.publish(t, "2")
	delivered := await(t, j, "2", journal.Delivered)
	require.Equal(t, http.StatusNoContent, delivered.Status)
	require.Empty(t, delivered.Reason)
}

func TestTheJournalRecordsTheCauseOfAReply(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") != "1" {
			return
		}
		for name, value := range map[string]string{
			"Ce-Specversion": "1.0", "Ce-Id": "reply", "Ce-Source": "shop", "Ce-Type": "order.received.v1",
		} {
			w.Header().Set(name, value)
		}
	}))
	w := newFixture(t, loopback.Ready(price.Address()))
	j := journal.New(100)
	_, _ = w.start(t, func(d *Deps, _ *Options) { d.Journal = j }).publish(t, "1")
	stored := await(t, j, "reply", journal.Stored)
	require.Equal(t, "1", stored.Cause)
	require.Equal(t, await(t, j, "1", journal.Delivered).Trace, stored.Trace)
}

func TestRecordsOfABatch(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	j := journal.New(100)
	r := w.start(t, func(d *Deps, _ *Options) { d.Journal = j })
	status, _ := r.publishBatch(t,
		`{"specversion":"1.0","id":"a","source":"shop","type":"order.received.v1"}`,
		`{"specversion":"1.0","id":"b","source":"shop","type":"order.received.v1"}`,
		`{"specversion":"1.0","id":"c","source":"shop"}`,
	)
	require.Equal(t, http.StatusBadRequest, status)
	traces := map[string]bool{}
	for _, record := range j.Recent(journal.Query{Kinds: []journal.Kind{journal.Stored}}) {
		traces[record.Trace] = true
	}
	require.Len(t, traces, 2, "what is not stored is no record, and each event has a trace of its own")
}

func TestSettledRecord(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	due := began.Add(3 * time.Second)
	ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order"}
	ev.SetExtension("rousecause", "0")
	settled := func(outcome dispatch.Outcome) dispatch.Settled {
		return dispatch.Settled{
			Event: ev, Outcome: outcome, Attempt: 2, Status: 503, Reason: failure.NoAnswer, Delay: 2 * time.Second, Began: began, Took: time.Second,
		}
	}
	same := journal.Record{
		Time: began.Add(time.Second), ID: "1", Source: "shop", Type: "order", Cause: "0", Namespace: "shop",
		Attempt: 2, Status: 503, Reason: "NoAnswer", Message: "no answer from the sink", Began: began, Took: time.Second,
	}
	for outcome, change := range map[dispatch.Outcome]func(*journal.Record){
		dispatch.Ack:    func(r *journal.Record) { r.Kind = journal.Delivered },
		dispatch.Retry:  func(r *journal.Record) { r.Kind, r.Due = journal.Retry, &due },
		dispatch.Reject: func(r *journal.Record) { r.Kind = journal.DeadLettered },
		dispatch.Skip:   func(r *journal.Record) { r.Kind, r.Attempt = journal.Filtered, 0 },
	} {
		want := same
		change(&want)
		got, ok := settledRecord(journal.Record{Namespace: "shop"}, settled(outcome))
		require.True(t, ok, outcome)
		require.Equal(t, want, got, outcome)
	}
	_, ok := settledRecord(journal.Record{}, settled(dispatch.Return))
	require.False(t, ok, "what was returned has not happened")
	got, ok := settledRecord(journal.Record{}, dispatch.Settled{Outcome: dispatch.Reject, Began: began})
	require.True(t, ok)
	require.Empty(t, got.ID, "a message that is no event has none")
}

func TestSinkName(t *testing.T) {
	t.Parallel()
	inside := orders(sinkURL)
	outside := routing.Route{External: true, Sink: "https://user:secret@hooks.example.com:8443/in?key=secret"}
	require.Equal(t, "shop/price", sinkName(inside))
	require.Equal(t, "hooks.example.com:8443", sinkName(outside))
}

const (
	traceID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	published = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func TestOneTraceRunsThroughAllThatAnEventBringsForth(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	collector := otlptest.Start(t)
	tracer := newTracer(t, collector, 0)
	r := w.start(t, func(deps *Deps, _ *Options) { deps.Tracer = tracer })

	r.publishTraced(t, "1", published)
	received := price.Await(t, 1)[0].Header.Get("Traceparent")
	r.publishTraced(t, "2", received) // as a Function does that publishes what its event brings forth
	last := price.Await(t, 2)[1].Header.Get("Traceparent")
	w.backlogIs(t, 0, 0)
	require.NoError(t, r.stop())
	require.NoError(t, tracer.Close(t.Context()))

	spans := map[string]*tracev1.Span{}
	for _, span := range collector.Spans() {
		spans[hex.EncodeToString(span.GetSpanId())] = span
	}
	require.Len(t, spans, 4)
	var names []string
	for id := spanOf(t, last); spans[id] != nil; id = hex.EncodeToString(spans[id].GetParentSpanId()) {
		require.Equal(t, traceID, hex.EncodeToString(spans[id].GetTraceId()))
		names = append(names, spans[id].GetName())
	}
	require.Equal(t, []string{
		"deliver shop/orders", "publish order.received.v1", "deliver shop/orders", "publish order.received.v1",
	}, names)
}

func TestWithoutTracingATracePassesAsItCame(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	w.start(t).publishTraced(t, "1", published)
	require.Equal(t, published, price.Await(t, 1)[0].Header.Get("Traceparent"))

	deps := Deps{Store: w.store, Registry: prometheus.NewRegistry()}
	require.Nil(t, newDispatchers(deps, DefaultOptions(), nil, &replicas{}).tracer())
}

func TestDeliveriesAreCountedAsKymaCounts(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(price.Address()))
	route := orders(sinkURL)
	route.Types = []routing.TypeMapping{{
		Original: "order.received.v1", Clean: "order.received.v1", Subject: subject, ConsumerName: "c1",
	}}
	w.routes.set(route)
	r := w.start(t)
	_, before := get(t, r.metricsURL)
	require.Contains(t, before, "eventing_ec_health 1")
	require.NotContains(t, before, "eventing_ec_nats_delivery_per_subscription_total{")

	r.publishMany(t, 0, 3)
	price.Await(t, 3)
	w.backlogIs(t, 0, 0)
	labels := `{consumer_name="c1",event_type="order.received.v1",response_code="204",sink="` + sinkURL +
		`",subscription_name="orders",subscription_namespace="shop"} 3`
	require.Eventually(t, func() bool {
		_, page := get(t, r.metricsURL)
		return strings.Contains(page, "eventing_ec_nats_delivery_per_subscription_total"+labels) &&
			strings.Contains(page, "eventing_ec_nats_subscriber_dispatch_duration_seconds_count"+labels)
	}, timeout, tick)

	w.routes.set()
	require.Eventually(t, func() bool {
		_, page := get(t, r.metricsURL)
		return !strings.Contains(page, "eventing_ec_nats_delivery_per_subscription_total{")
	}, timeout, tick, "a Subscription that is gone is still counted")
}

func newTracer(t *testing.T, collector *otlptest.Collector, ratio float64) *tracecontext.Tracer {
	t.Helper()
	options := DefaultOptions().Tracing
	options.Endpoint, options.SampleRatio = collector.URL, ratio
	tracer, err := tracecontext.New(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	return tracer
}

func (r *replica) publishTraced(t *testing.T, id, traceparent string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/publish", strings.NewReader(`{}`))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": id, "Ce-Source": "shop", "Ce-Type": "order.received.v1",
		"Content-Type": "application/json", "Traceparent": traceparent,
	} {
		req.Header.Set(name, value)
	}
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
}

func spanOf(t *testing.T, traceparent string) string {
	t.Helper()
	parts := strings.Split(traceparent, "-")
	require.Len(t, parts, 4, traceparent)
	return parts[2]
}
