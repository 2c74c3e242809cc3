package tracecontext

import (
	"context"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/tracing"
)

const (
	service = "rouse-eventbridge"
	scope   = "github.com/rouse-run/rouse/eventbridge"

	traceparent = "traceparent"
	tracestate  = "tracestate"

	delivered = "ack"
)

// Tracer makes spans of what the bridge does with an event. Each span is the parent of what comes after it: the event
// carries its context on.
type Tracer struct {
	live   *tracing.Live
	tracer trace.Tracer
	w3c    propagation.TraceContext
}

// New makes the Tracer of the options, which makes no spans while it has no collector. It does not wait for one.
func New(ctx context.Context, options tracing.Options, log logr.Logger) (*Tracer, error) {
	live, err := tracing.NewLive(ctx, options, service, log)
	if err != nil {
		return nil, err
	}
	return &Tracer{live: live, tracer: live.Tracer(scope)}, nil
}

// Collect sends spans to another collector from now on, to none when the endpoint is empty.
func (t *Tracer) Collect(endpoint string) error { return t.live.Collect(endpoint) }

// Active reports whether spans are made. A nil Tracer makes none.
func (t *Tracer) Active() bool { return t != nil && t.live.Active() }

// Close sends the last spans. A nil Tracer has none.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.live.Close(ctx)
}

// Publish begins the span of an event that is being stored, and makes the event carry its context. The parent is what
// the event carries already: Extract brought it there from the request. What came of it ends the span.
func (t *Tracer) Publish(ctx context.Context, ev *cloudevent.Event) (end func(err error)) {
	ctx, span := t.start(ctx, "publish "+ev.Type, trace.SpanKindServer, carrier{ev})
	if span.IsRecording() {
		span.SetAttributes(attributesOf(ev)...)
		span.SetAttributes(semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend)
	}
	ev.DeleteExtension(tracestate) // nothing of the span before
	t.w3c.Inject(ctx, carrier{ev})
	Ensure(ev) // the collector may have gone meanwhile
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Deliver begins the span of one attempt to deliver the event to a Subscription's sink, whose parent is what the event
// carries, and makes the event carry the span's own context. The sink's status, or 0, and what became of the event end
// it. Without a collector there is no span, and end is nil.
func (t *Tracer) Deliver(ctx context.Context, subscription string, attempt int, ev *cloudevent.Event) (end func(status int, outcome string)) {
	if !t.Active() {
		return nil
	}
	ctx, span := t.start(ctx, "deliver "+subscription, trace.SpanKindClient, carrier{ev})
	if span.IsRecording() {
		span.SetAttributes(attributesOf(ev)...)
		span.SetAttributes(
			semconv.MessagingOperationName("deliver"), semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationSubscriptionName(subscription),
			attribute.Int("rouse.delivery.attempt", attempt),
		)
	}
	ev.DeleteExtension(tracestate)
	t.w3c.Inject(ctx, carrier{ev})
	return func(status int, outcome string) {
		span.SetAttributes(attribute.String("rouse.delivery.outcome", outcome))
		if status > 0 {
			span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		}
		if outcome != delivered {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
	}
}

func (t *Tracer) start(
	ctx context.Context, name string, kind trace.SpanKind, from propagation.TextMapCarrier,
) (context.Context, trace.Span) {
	return t.tracer.Start(t.w3c.Extract(ctx, from), name, trace.WithSpanKind(kind))
}

// attributesOf names an event, and none of its data.
func attributesOf(ev *cloudevent.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String("nats"),
		semconv.MessagingDestinationName(ev.Type),
		semconv.MessagingMessageID(ev.ID),
		semconv.CloudEventsEventID(ev.ID),
		semconv.CloudEventsEventSource(ev.Source),
		semconv.CloudEventsEventType(ev.Type),
	}
}

// carrier lets the context of a trace travel in an event.
type carrier struct{ ev *cloudevent.Event }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string { return c.ev.Extension(key) }

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { c.ev.SetExtension(key, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return []string{traceparent, tracestate} }
