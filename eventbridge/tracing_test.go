package eventbridge

import (
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
)

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
	require.Nil(t, newDeliveries(deps, DefaultOptions(), nil, &replicas{}).tracer())
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
