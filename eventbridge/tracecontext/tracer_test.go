package tracecontext

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
	"github.com/rouse-run/rouse/internal/tracing"
)

const (
	traceID    = "4bf92f3577b34da6a3ce929d0e0e4736"
	publisher  = "00f067aa0ba902b7"
	sampled    = "00-" + traceID + "-" + publisher + "-01"
	unsampled  = "00-" + traceID + "-" + publisher + "-00"
	orderEvent = "order.received.v1"
)

// sent returns the spans that came when a tracer was closed, by name.
func sent(t *testing.T, collector *otlptest.Collector, tracer *Tracer) map[string][]*tracev1.Span {
	t.Helper()
	require.NoError(t, tracer.Close(t.Context()))
	found := map[string][]*tracev1.Span{}
	for _, span := range collector.Spans() {
		found[span.GetName()] = append(found[span.GetName()], span)
	}
	return found
}

func start(t *testing.T, endpoint string, ratio float64) *Tracer {
	t.Helper()
	tracer, err := New(t.Context(), tracing.Options{Endpoint: endpoint, SampleRatio: ratio}, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tracer.Close(t.Context()) })
	return tracer
}

func newEvent(id, source, eventType string) cloudevent.Event {
	return cloudevent.Event{
		ID: id, Source: source, Type: eventType, DataContentType: "text/plain", Data: []byte("the data is nobody's business"),
	}
}

// decoded is the event as it comes out of the store.
func decoded(t *testing.T, ev cloudevent.Event) cloudevent.Event {
	t.Helper()
	e, err := cloudevent.FromStructured(ev.AppendStructured(nil))
	require.NoError(t, err)
	return e
}

func order() cloudevent.Event { return newEvent("1", "shop", orderEvent) }

func TestOneTraceRunsFromThePublisherThroughAChain(t *testing.T) {
	t.Parallel()
	collector := otlptest.Start(t)
	tracer := start(t, collector.URL, 0) // nothing begins here, so all follows the publisher
	ctx := t.Context()

	first := order()
	Extract(http.Header{"Traceparent": {sampled}}, &first)
	first.SetExtension("tracestate", "vendor=1")
	tracer.Publish(ctx, &first)(nil)
	require.Equal(t, "vendor=1", first.Extension("tracestate"))
	carried := first.Extension("traceparent")
	attempt := decoded(t, first) // as it is decoded for each attempt
	tracer.Deliver(ctx, "shop/orders", 1, &attempt)(0, "retry")
	attempt = decoded(t, first)
	end := tracer.Deliver(ctx, "shop/orders", 2, &attempt)
	delivered := attempt.Extension("traceparent")
	require.NotEqual(t, carried, delivered)

	// The sink's reply carries what the sink was given, and is published and delivered in turn.
	reply := newEvent("2", "price", "order.priced.v1")
	reply.SetExtension("traceparent", delivered)
	end(http.StatusOK, "ack")
	tracer.Publish(ctx, &reply)(errors.New("no room"))
	again := decoded(t, reply)
	tracer.Deliver(ctx, "shop/prices", 1, &again)(http.StatusBadRequest, "reject")

	spans := sent(t, collector, tracer)
	publish, deliver := spans["publish "+orderEvent], spans["deliver shop/orders"]
	require.Len(t, publish, 1)
	require.Len(t, deliver, 2)
	require.Equal(t, publisher, hex.EncodeToString(publish[0].GetParentSpanId()))
	require.Equal(t, idOf(publish[0]), spanOf(t, carried))
	for _, span := range deliver {
		require.Equal(t, publish[0].GetSpanId(), span.GetParentSpanId(), "attempts stand beside each other")
	}
	require.Equal(t, idOf(deliver[1]), spanOf(t, delivered))
	second, last := spans["publish order.priced.v1"], spans["deliver shop/prices"]
	require.Equal(t, deliver[1].GetSpanId(), second[0].GetParentSpanId())
	require.Equal(t, second[0].GetSpanId(), last[0].GetParentSpanId())

	require.Equal(t, map[string]string{
		"messaging.system": "nats", "messaging.operation.name": "publish", "messaging.operation.type": "send",
		"messaging.destination.name": orderEvent, "messaging.message.id": "1",
		"cloudevents.event_id": "1", "cloudevents.event_source": "shop", "cloudevents.event_type": orderEvent,
	}, attributes(publish[0]))
	require.Equal(t, map[string]string{
		"messaging.system": "nats", "messaging.operation.name": "deliver", "messaging.operation.type": "process",
		"messaging.destination.name": orderEvent, "messaging.message.id": "1", "messaging.destination.subscription.name": "shop/orders",
		"cloudevents.event_id": "1", "cloudevents.event_source": "shop", "cloudevents.event_type": orderEvent,
		"rouse.delivery.attempt": "1", "rouse.delivery.outcome": "retry",
	}, attributes(deliver[0]))
	require.Equal(t, tracev1.Span_SPAN_KIND_SERVER, publish[0].GetKind())
	require.Equal(t, tracev1.Span_SPAN_KIND_CLIENT, deliver[0].GetKind())
	require.Equal(t, tracev1.Status_STATUS_CODE_ERROR, deliver[0].GetStatus().GetCode())
	require.Equal(t, tracev1.Status_STATUS_CODE_UNSET, deliver[1].GetStatus().GetCode())
	require.Equal(t, tracev1.Status_STATUS_CODE_ERROR, second[0].GetStatus().GetCode())
	require.Equal(t, tracev1.Status_STATUS_CODE_ERROR, last[0].GetStatus().GetCode())
	require.Equal(t, "rouse-eventbridge", collector.Resource("service.name"))
}

func TestWhoeverBeganTheTraceDecidesWhetherItIsRecorded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, extension string
		ratio             float64
		wantSpans         int
		wantFlags         trace.TraceFlags
		wantTrace         string // empty: a new one
	}{
		"the publisher wants it":              {header: sampled, wantSpans: 2, wantFlags: trace.FlagsSampled, wantTrace: traceID},
		"the publisher does not want it":      {header: unsampled, ratio: 1, wantTrace: traceID},
		"the event's own context is taken":    {extension: sampled, wantSpans: 2, wantFlags: trace.FlagsSampled, wantTrace: traceID},
		"the header wins":                     {header: unsampled, extension: sampled, ratio: 1, wantTrace: traceID},
		"nobody began it and all are wanted":  {ratio: 1, wantSpans: 2, wantFlags: trace.FlagsSampled},
		"nobody began it and none are wanted": {ratio: 0},
		"what is no context is a new trace":   {header: "00-nonsense", extension: "nonsense", ratio: 1, wantSpans: 2, wantFlags: trace.FlagsSampled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collector := otlptest.Start(t)
			tracer := start(t, collector.URL+"/", tc.ratio)
			ev, header := order(), http.Header{}
			if tc.header != "" {
				header.Set("Traceparent", tc.header)
			}
			if tc.extension != "" {
				ev.SetExtension("traceparent", tc.extension)
			}
			Extract(header, &ev)
			tracer.Publish(t.Context(), &ev)(nil)
			attempt := decoded(t, ev)
			tracer.Deliver(t.Context(), "shop/orders", 1, &attempt)(http.StatusNoContent, "ack")
			carried := contextOf(t, attempt.Extension("traceparent"))
			require.Equal(t, tc.wantFlags, carried.TraceFlags()&trace.FlagsSampled)
			if tc.wantTrace != "" {
				require.Equal(t, tc.wantTrace, carried.TraceID().String())
			} else {
				require.NotEqual(t, traceID, carried.TraceID().String())
			}
			require.NotEqual(t, publisher, carried.SpanID().String())
			require.Empty(t, attempt.Extension("tracestate"))
			count := 0
			for _, spans := range sent(t, collector, tracer) {
				count += len(spans)
			}
			require.Equal(t, tc.wantSpans, count)
		})
	}
}

func TestSpansAreMadeWhileThereIsACollector(t *testing.T) {
	t.Parallel()
	tracer, err := New(t.Context(), tracing.DefaultOptions(), logr.Discard())
	require.NoError(t, err)
	require.False(t, tracer.Active())
	ev := order()
	require.Nil(t, tracer.Deliver(t.Context(), "shop/orders", 1, &ev))
	require.Empty(t, ev.Extension("traceparent"), "the event stays as it is")

	collector := otlptest.Start(t)
	require.NoError(t, tracer.Collect(collector.URL))
	require.True(t, tracer.Active())
	tracer.Deliver(t.Context(), "shop/orders", 1, &ev)(200, "ack")
	require.NoError(t, tracer.Collect(""))
	require.False(t, tracer.Active())
	last := order()
	tracer.Publish(t.Context(), &last)(nil)
	require.NotEmpty(t, last.Extension("traceparent"), "also when the collector goes while it is published")
	require.NoError(t, tracer.Close(t.Context()))
	require.Len(t, collector.Spans(), 1)
	require.False(t, (*Tracer)(nil).Active())
	require.NoError(t, (*Tracer)(nil).Close(t.Context()))
}

func contextOf(t *testing.T, traceparent string) trace.SpanContext {
	t.Helper()
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": traceparent})
	found := trace.SpanContextFromContext(ctx)
	require.True(t, found.IsValid(), "%q is no context", traceparent)
	return found
}

func spanOf(t *testing.T, traceparent string) string {
	t.Helper()
	return contextOf(t, traceparent).SpanID().String()
}

func idOf(span *tracev1.Span) string { return hex.EncodeToString(span.GetSpanId()) }

func attributes(span *tracev1.Span) map[string]string {
	found := map[string]string{}
	for _, attribute := range span.GetAttributes() {
		switch value := attribute.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			found[attribute.GetKey()] = value.StringValue
		case *commonv1.AnyValue_IntValue:
			found[attribute.GetKey()] = strconv.FormatInt(value.IntValue, 10)
		}
	}
	return found
}
