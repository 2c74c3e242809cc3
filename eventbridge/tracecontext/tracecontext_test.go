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
	someTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	someSpan   = "00f067aa0ba902b7"
	someParent = "00-" + someTrace + "-" + someSpan + "-01"
)

func eventWith(extensions map[string]string) *cloudevent.Event {
	ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order"}
	for name, value := range extensions {
		ev.SetExtension(name, value)
	}
	return ev
}

func TestEnsure(t *testing.T) {
	t.Parallel()
	const fresh = "^00-[0-9a-f]{32}-[0-9a-f]{16}-00$"
	for name, tc := range map[string]struct {
		extensions map[string]string
		want       string
		wantState  string
	}{
		"an event without a trace gets one that is not sampled": {nil, fresh, ""},
		"a trace stays as it is": {
			map[string]string{"traceparent": someParent, "tracestate": "a=1"}, "^" + someParent + "$", "a=1",
		},
		"what is no trace passes as it came": {map[string]string{"traceparent": "none"}, "^none$", ""},
		"a state without a trace is dropped": {map[string]string{"tracestate": "a=1"}, fresh, ""},
		"a trace of B3 is the same trace": {
			map[string]string{"b3traceid": someTrace, "b3spanid": someSpan, "b3sampled": "1"}, "^" + someParent + "$", "",
		},
		"a short trace of B3 is made longer": {
			map[string]string{"b3traceid": "00F067AA0BA902B7", "b3spanid": someSpan},
			"^00-0000000000000000" + someSpan + "-" + someSpan + "-00$", "",
		},
		"a trace of B3 that is debugged is sampled": {
			map[string]string{"b3traceid": someTrace, "b3spanid": someSpan, "b3flags": "1"}, "^" + someParent + "$", "",
		},
		"what is no trace of B3 does not count": {map[string]string{"b3traceid": "a", "b3spanid": someSpan}, fresh, ""},
		"a trace of B3 without a span does not": {map[string]string{"b3traceid": someTrace}, fresh, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := eventWith(tc.extensions)
			Ensure(ev)
			require.Regexp(t, tc.want, ev.Extension("traceparent"))
			require.Equal(t, tc.wantState, ev.Extension("tracestate"))
		})
	}
}

func TestEveryTraceIsAnother(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		ev := eventWith(nil)
		Ensure(ev)
		require.NotEmpty(t, ID(ev))
		require.False(t, seen[ID(ev)])
		seen[ID(ev)] = true
	}
}

func TestID(t *testing.T) {
	t.Parallel()
	const zeros = "00000000000000000000000000000000"
	for parent, want := range map[string]string{
		someParent:                             someTrace,
		"01" + someParent[2:]:                  someTrace,
		"01" + someParent[2:] + "-later":       someTrace,
		"":                                     "",
		someParent + "-later":                  "",
		someParent + "x":                       "",
		"01" + someParent[2:] + "x":            "",
		"ff" + someParent[2:]:                  "",
		"xx" + someParent[2:]:                  "",
		someParent[:54]:                        "",
		"00-" + zeros + "-" + someSpan + "-01": "",
		"00-" + someTrace + "-" + zeros[:16] + "-01":     "",
		"00-" + someTrace[:31] + "X-" + someSpan + "-01": "",
		"00-" + someTrace + "_" + someSpan + "-01":       "",
		"00-" + someTrace + "-" + someSpan + "_01":       "",
		"00-" + someTrace + "-" + someSpan + "-0x":       "",
	} {
		require.Equal(t, want, ID(eventWith(map[string]string{"traceparent": parent})), parent)
	}
}

func TestTraceHeadersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	published := http.Header{}
	for name, value := range map[string]string{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "X-B3-TraceId": "a", "X-B3-ParentSpanId": "b",
		"X-B3-SpanId": "c", "X-B3-Sampled": "1", "X-B3-Flags": "0", "tracestate": "a=1,b=2",
	} {
		published.Set(name, value)
	}
	ev := cloudevent.Event{ID: "1", Source: "shop", Type: "order"}
	ev.SetExtension("b3sampled", "0")
	ev.SetExtension("region", "eu")
	Extract(published, &ev)
	require.Equal(t, "1", ev.Extension("b3sampled"), "the header wins")

	sent := http.Header{}
	ev.SetHeader(sent)
	Inject(sent)
	require.Equal(t, "eu", sent.Get("Ce-Region"))
	for _, p := range pairs() {
		require.Equal(t, published.Get(p.header), sent.Get(p.header), p.header)
		require.NotEmpty(t, sent.Get(p.header))
		require.Empty(t, sent.Get(p.extensionHeader))
	}
}

func TestTheStateOfATraceComesWithItsParent(t *testing.T) {
	t.Parallel()
	var ev cloudevent.Event
	Extract(http.Header{"Tracestate": {"a=1"}}, &ev)
	require.Empty(t, ev.Extensions)
	Extract(http.Header{"Tracestate": {"a=1", "b=2"}, "Traceparent": {"00-0-0-01"}}, &ev)
	require.Equal(t, "a=1,b=2", ev.Extension("tracestate"), "as it may come in several headers")
}

func TestAnEventWithoutATraceGetsNone(t *testing.T) {
	t.Parallel()
	var ev cloudevent.Event
	Extract(http.Header{}, &ev)
	require.Empty(t, ev.Extensions)
	header := http.Header{"Ce-Id": {"1"}}
	Inject(header)
	require.Equal(t, http.Header{"Ce-Id": {"1"}}, header)
}

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
		require.Equal(t, publish[0].GetSpanId(), span.GetParentSpanId(), "attempts are siblings")
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

func TestSamplingDecisionOfThePublisherIsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, extension string
		ratio             float64
		wantSpans         int
		wantFlags         trace.TraceFlags
		wantTrace         string // empty: a new one
	}{
		"the publisher wants it":                     {header: sampled, wantSpans: 2, wantFlags: trace.FlagsSampled, wantTrace: traceID},
		"the publisher does not want it":             {header: unsampled, ratio: 1, wantTrace: traceID},
		"the event's own context is taken":           {extension: sampled, wantSpans: 2, wantFlags: trace.FlagsSampled, wantTrace: traceID},
		"the header wins":                            {header: unsampled, extension: sampled, ratio: 1, wantTrace: traceID},
		"no publisher began it and all are sampled":  {ratio: 1, wantSpans: 2, wantFlags: trace.FlagsSampled},
		"no publisher began it and none are sampled": {ratio: 0},
		"what is no context is a new trace":          {header: "00-nonsense", extension: "nonsense", ratio: 1, wantSpans: 2, wantFlags: trace.FlagsSampled},
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
