package tracing

import (
	"context"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceparent = "traceparent"
	tracestate  = "tracestate"

	delivered = "ack"
)

// Publish begins the span of an event that is being stored, and makes the event carry its context. The parent is what
// the event carries already: Extract brought it there from the request. What came of it ends the span.
func (t *Tracer) Publish(ctx context.Context, ev *event.Event) (end func(err error)) {
	ctx, span := t.start(ctx, "publish "+ev.Type(), trace.SpanKindServer, ev)
	if span.IsRecording() {
		span.SetAttributes(attributesOf(ev)...)
		span.SetAttributes(semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend)
	}
	t.carry(ctx, ev)
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Deliver begins the span of one attempt to deliver the event to a Subscription's sink, whose parent is what the event
// carries, and makes the event carry the span's own context. The sink's status, or 0, and what became of the event end
// it.
func (t *Tracer) Deliver(ctx context.Context, subscription string, attempt int, ev *event.Event) (end func(status int, outcome string)) {
	ctx, span := t.start(ctx, "deliver "+subscription, trace.SpanKindClient, ev)
	if span.IsRecording() {
		span.SetAttributes(attributesOf(ev)...)
		span.SetAttributes(
			semconv.MessagingOperationName("deliver"), semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationSubscriptionName(subscription),
			attribute.Int("rouse.delivery.attempt", attempt),
		)
	}
	t.carry(ctx, ev)
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

func (t *Tracer) start(ctx context.Context, name string, kind trace.SpanKind, ev *event.Event) (context.Context, trace.Span) {
	return t.tracer.Start(t.w3c.Extract(ctx, extensions{ev}), name, trace.WithSpanKind(kind))
}

// carry makes the event carry the context's span, and nothing of the one before.
func (t *Tracer) carry(ctx context.Context, ev *event.Event) {
	ev.SetExtension(tracestate, nil)
	t.w3c.Inject(ctx, extensions{ev})
}

// attributesOf names the event, and none of its data.
func attributesOf(ev *event.Event) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String("nats"),
		semconv.MessagingDestinationName(ev.Type()),
		semconv.MessagingMessageID(ev.ID()),
		semconv.CloudEventsEventID(ev.ID()),
		semconv.CloudEventsEventSource(ev.Source()),
		semconv.CloudEventsEventType(ev.Type()),
	}
}

// extensions let the context of a trace travel in an event.
type extensions struct{ ev *event.Event }

// Get implements propagation.TextMapCarrier.
func (e extensions) Get(key string) string {
	text, _ := e.ev.Extensions()[key].(string)
	return text
}

// Set implements propagation.TextMapCarrier.
func (e extensions) Set(key, value string) { e.ev.SetExtension(key, value) }

// Keys implements propagation.TextMapCarrier.
func (e extensions) Keys() []string { return []string{traceparent, tracestate} }
