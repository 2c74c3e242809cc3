package tracing

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
)

const (
	traceID    = "4bf92f3577b34da6a3ce929d0e0e4736"
	publisher  = "00f067aa0ba902b7"
	sampled    = "00-" + traceID + "-" + publisher + "-01"
	unsampled  = "00-" + traceID + "-" + publisher + "-00"
	timeout    = 20 * time.Second
	orderEvent = "order.received.v1"
)

// sent returns the spans that came when a tracer was closed, by name.
func sent(t *testing.T, collector *otlptest.Collector, tracer *Tracer) map[string][]*tracev1.Span {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	require.NoError(t, tracer.Close(ctx))
	found := map[string][]*tracev1.Span{}
	for _, span := range collector.Spans() {
		found[span.GetName()] = append(found[span.GetName()], span)
	}
	return found
}

func start(t *testing.T, endpoint string, ratio float64) *Tracer {
	t.Helper()
	tracer, err := New(t.Context(), Options{Endpoint: endpoint, SampleRatio: ratio}, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tracer.Close(context.WithoutCancel(t.Context())) })
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

func TestTheParentDecidesWhetherATraceIsSampled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, extension string
		ratio             float64
		wantSpans         int
		wantFlags         trace.TraceFlags
		wantTrace         string // empty: a new one
	}{
		"the publisher wants it":            {header: sampled, wantSpans: 2, wantFlags: trace.FlagsSampled, wantTrace: traceID},
		"the publisher does not want it":    {header: unsampled, ratio: 1, wantTrace: traceID},
		"the event's own context is taken":  {extension: sampled, wantSpans: 2, wantFlags: trace.FlagsSampled, wantTrace: traceID},
		"the header wins":                   {header: unsampled, extension: sampled, ratio: 1, wantTrace: traceID},
		"a new trace, and all are sampled":  {ratio: 1, wantSpans: 2, wantFlags: trace.FlagsSampled},
		"a new trace, and none are sampled": {ratio: 0},
		"what is no context is a new trace": {header: "00-nonsense", extension: "nonsense", ratio: 1, wantSpans: 2, wantFlags: trace.FlagsSampled},
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

func TestAnUnreachableCollectorBlocksNothingAndIsLoggedOnce(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(away.Close)
	var lines sync.Map
	log := funcr.New(func(_, args string) {
		count, _ := lines.LoadOrStore(args, 0)
		lines.Store(args, count.(int)+1) //nolint:forcetypeassert // only ints are stored
	}, funcr.Options{})
	tracer, err := New(t.Context(), Options{Endpoint: away.URL, SampleRatio: 1}, log)
	require.NoError(t, err)
	for range 3 {
		for range maxQueue * 2 { // more than fit the queue
			ev := order()
			tracer.Publish(t.Context(), &ev)(nil)
		}
		require.NoError(t, tracer.provider.ForceFlush(t.Context()))
	}
	require.NoError(t, tracer.Close(t.Context()))
	noted := 0
	lines.Range(func(_, count any) bool {
		noted += count.(int) //nolint:forcetypeassert // as above
		return true
	})
	require.Equal(t, 1, noted)
}

func TestWithoutACollectorThereIsNoTracer(t *testing.T) {
	t.Parallel()
	tracer, err := New(t.Context(), DefaultOptions(), logr.Discard())
	require.NoError(t, err)
	require.Nil(t, tracer)
	require.NoError(t, tracer.Close(t.Context()))
}

func TestTraceOptionsThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"the defaults":             {},
		"a collector":              {args: []string{"--trace-endpoint=https://collector:4318/v1/traces", "--trace-sample-ratio=0.05"}},
		"no URL":                   {args: []string{"--trace-endpoint=collector:4318"}, want: "--trace-endpoint"},
		"another scheme":           {args: []string{"--trace-endpoint=grpc://collector:4317"}, want: "--trace-endpoint"},
		"more than all":            {args: []string{"--trace-sample-ratio=1.5"}, want: "--trace-sample-ratio"},
		"a ratio that is no ratio": {args: []string{"--trace-sample-ratio=NaN"}, want: "--trace-sample-ratio"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			options.BindFlags(flags)
			require.NoError(t, flags.Parse(tc.args))
			if tc.want == "" {
				require.NoError(t, options.Validate())
				return
			}
			require.ErrorContains(t, options.Validate(), tc.want)
		})
	}
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
