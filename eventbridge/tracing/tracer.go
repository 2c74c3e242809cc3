package tracing

import (
	"context"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	traceparent = "traceparent"
	tracestate  = "tracestate"

	delivered = "ack"
)

// Publish begins the span of an event that is being stored, and makes the event carry its context. The parent is what
// the event carries already: Extract brought it there from the request. What came of it ends the span.
func (t *Tracer) Publish(ctx context.Context, ev *event.Event) (end func(err error)) {
	ctx, span := t.start(ctx, "publish "+ev.Type(), trace.SpanKindServer, published{ev})
	if span.IsRecording() {
		span.SetAttributes(attributesOf(ev.ID(), ev.Source(), ev.Type())...)
		span.SetAttributes(semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend)
	}
	ev.SetExtension(tracestate, nil) // nothing of the span before
	t.w3c.Inject(ctx, published{ev})
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
func (t *Tracer) Deliver(ctx context.Context, subscription string, attempt int, ev *cloudevent.Event) (end func(status int, outcome string)) {
	ctx, span := t.start(ctx, "deliver "+subscription, trace.SpanKindClient, stored{ev})
	if span.IsRecording() {
		span.SetAttributes(attributesOf(ev.ID, ev.Source, ev.Type)...)
		span.SetAttributes(
			semconv.MessagingOperationName("deliver"), semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationSubscriptionName(subscription),
			attribute.Int("rouse.delivery.attempt", attempt),
		)
	}
	ev.DeleteExtension(tracestate)
	t.w3c.Inject(ctx, stored{ev})
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
	ctx context.Context, name string, kind trace.SpanKind, carrier propagation.TextMapCarrier,
) (context.Context, trace.Span) {
	return t.tracer.Start(t.w3c.Extract(ctx, carrier), name, trace.WithSpanKind(kind))
}

// attributesOf names an event, and none of its data.
func attributesOf(id, source, eventType string) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.MessagingSystemKey.String("nats"),
		semconv.MessagingDestinationName(eventType),
		semconv.MessagingMessageID(id),
		semconv.CloudEventsEventID(id),
		semconv.CloudEventsEventSource(source),
		semconv.CloudEventsEventType(eventType),
	}
}

// published lets the context of a trace travel in an event that comes.
type published struct{ ev *event.Event }

// Get implements propagation.TextMapCarrier.
func (p published) Get(key string) string {
	text, _ := p.ev.Extensions()[key].(string)
	return text
}

// Set implements propagation.TextMapCarrier.
func (p published) Set(key, value string) { p.ev.SetExtension(key, value) }

// Keys implements propagation.TextMapCarrier.
func (p published) Keys() []string { return []string{traceparent, tracestate} }

// stored lets the context of a trace travel in an event that goes.
type stored struct{ ev *cloudevent.Event }

// Get implements propagation.TextMapCarrier.
func (s stored) Get(key string) string { return s.ev.Extension(key) }

// Set implements propagation.TextMapCarrier.
func (s stored) Set(key, value string) { s.ev.SetExtension(key, value) }

// Keys implements propagation.TextMapCarrier.
func (s stored) Keys() []string { return []string{traceparent, tracestate} }
