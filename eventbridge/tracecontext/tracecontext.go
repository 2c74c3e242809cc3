package tracecontext

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

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
	traceDigits = 32
	spanDigits  = 16

	flagsUnsampled = "00"
	flagsSampled   = "01"
)

// Ensure adds a traceparent to an event without one, so that all events of a chain share a trace id even without a
// collector. It uses the event's B3 trace if there is one, else a new unsampled one.
func Ensure(ev *cloudevent.Event) {
	if ev.Extension(traceparent) != "" {
		return
	}
	ev.DeleteExtension(tracestate) // of no trace
	if parent, ok := ofB3(ev); ok {
		ev.SetExtension(traceparent, parent)
		return
	}
	ev.SetExtension(traceparent, newParent())
}

// ID returns the event's trace id, empty without one. A traceparent consists of version, trace id, span id and flags;
// later versions may have more parts.
func ID(ev *cloudevent.Event) string {
	const start, end = len("00-"), len("00-") + traceDigits
	const spanEnd = end + len("-") + spanDigits
	const length = spanEnd + len("-00")
	parent := ev.Extension(traceparent)
	switch {
	case len(parent) < length, parent[start-1] != '-', parent[end] != '-', parent[spanEnd] != '-':
		return ""
	case len(parent) > length && (parent[:2] == "00" || parent[length] != '-'), parent[:2] == "ff":
		return ""
	case !isHex(parent[:2]), !isID(parent[start:end]), !isID(parent[end+1 : spanEnd]), !isHex(parent[spanEnd+1 : length]):
		return ""
	default:
		return parent[start:end]
	}
}

// ofB3 returns the traceparent that corresponds to B3 extensions.
func ofB3(ev *cloudevent.Event) (string, bool) {
	id, span := strings.ToLower(ev.Extension("b3traceid")), strings.ToLower(ev.Extension("b3spanid"))
	if len(id) == traceDigits/2 {
		id = strings.Repeat("0", traceDigits/2) + id
	}
	if len(id) != traceDigits || len(span) != spanDigits || !isID(id) || !isID(span) {
		return "", false
	}
	flags := flagsUnsampled
	if sampling := ev.Extension("b3sampled"); sampling == "1" || sampling == "true" || ev.Extension("b3flags") == "1" {
		flags = flagsSampled
	}
	return "00-" + id + "-" + span + "-" + flags, true
}

// newParent begins a trace. Neither id may be all zeros.
func newParent() string {
	const idBytes, spanBytes = traceDigits / 2, spanDigits / 2
	var ids [idBytes + spanBytes]byte
	binary.NativeEndian.PutUint64(ids[0:], rand.Uint64())           //nolint:gosec // unique, not secret
	binary.NativeEndian.PutUint64(ids[idBytes/2:], rand.Uint64()|1) //nolint:gosec // unique, not secret
	binary.NativeEndian.PutUint64(ids[idBytes:], rand.Uint64()|1)   //nolint:gosec // unique, not secret
	text := make([]byte, 0, len("00-")+traceDigits+len("-")+spanDigits+len("-00"))
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, ids[:idBytes])
	text = append(text, '-')
	text = hex.AppendEncode(text, ids[idBytes:])
	return string(append(text, "-"+flagsUnsampled...))
}

// isID reports whether text consists of lower-case hexadecimal digits that are not all zero.
func isID(text string) bool { return isHex(text) && strings.Trim(text, "0") != "" }

func isHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// pair is a header and the extension that carries its value.
type pair struct{ header, extension, extensionHeader string }

// pairs are the two headers of W3C Trace Context and the five of B3.
func pairs() [7]pair {
	return [...]pair{
		{"Traceparent", traceparent, "Ce-Traceparent"},
		{"Tracestate", tracestate, "Ce-Tracestate"},
		{"X-B3-Traceid", "b3traceid", "Ce-B3traceid"},
		{"X-B3-Parentspanid", "b3parentspanid", "Ce-B3parentspanid"},
		{"X-B3-Spanid", "b3spanid", "Ce-B3spanid"},
		{"X-B3-Sampled", "b3sampled", "Ce-B3sampled"},
		{"X-B3-Flags", "b3flags", "Ce-B3flags"},
	}
}

// Extract copies the trace headers of a published event into its extensions. A header overrides an extension that the
// publisher set. A tracestate counts only with its traceparent.
func Extract(header http.Header, ev *cloudevent.Event) {
	for _, p := range pairs() {
		values := header[p.header]
		if len(values) == 0 || values[0] == "" {
			continue
		}
		if p.extension != tracestate {
			ev.SetExtension(p.extension, values[0])
		} else if header["Traceparent"] != nil {
			ev.SetExtension(tracestate, strings.Join(values, ","))
		}
	}
}

// Inject turns the extensions of an event in binary mode back into trace headers.
func Inject(header http.Header) {
	for _, p := range pairs() {
		if values := header[p.extensionHeader]; len(values) > 0 {
			header[p.header] = values
			delete(header, p.extensionHeader)
		}
	}
}

const (
	service = "rouse-eventbridge"
	scope   = "github.com/rouse-run/rouse/eventbridge"

	traceparent = "traceparent"
	tracestate  = "tracestate"

	delivered = "ack"
)

// Tracer creates the bridge's spans of an event. Each span is the parent of what follows: the event carries its context
// on.
type Tracer struct {
	live   *tracing.Live
	tracer trace.Tracer
	w3c    propagation.TraceContext
}

// New returns a Tracer, which creates no spans while no collector is configured. It does not wait for the collector.
func New(ctx context.Context, options tracing.Options, log logr.Logger) (*Tracer, error) {
	live, err := tracing.NewLive(ctx, options, service, log)
	if err != nil {
		return nil, err
	}
	return &Tracer{live: live, tracer: live.Tracer(scope)}, nil
}

// Collect switches to another collector, and to none when the endpoint is empty.
func (t *Tracer) Collect(endpoint string) error { return t.live.Collect(endpoint) }

// Active reports whether spans are created. It returns false for a nil Tracer.
func (t *Tracer) Active() bool { return t != nil && t.live.Active() }

// Close flushes spans. It may be called on a nil Tracer.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.live.Close(ctx)
}

// Publish begins the span of storing an event, and makes the event carry its context. Its parent is the context that
// Extract copied from the request. The returned function ends the span with the result.
func (t *Tracer) Publish(ctx context.Context, ev *cloudevent.Event) (end func(err error)) {
	ctx, span := t.start(ctx, "publish "+ev.Type, trace.SpanKindServer, carrier{ev})
	if span.IsRecording() {
		span.SetAttributes(attributesOf(ev)...)
		span.SetAttributes(semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend)
	}
	ev.DeleteExtension(tracestate) // of the span before
	t.w3c.Inject(ctx, carrier{ev})
	Ensure(ev) // the collector may have been removed meanwhile
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Deliver begins the span of one attempt to deliver the event to a Subscription's sink, and makes the event carry its
// context. end takes the sink's status, or 0, and the outcome. Without a collector end is nil.
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

// attributesOf describes an event without its data.
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

// carrier stores a trace context in an event's extensions.
type carrier struct{ ev *cloudevent.Event }

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string { return c.ev.Extension(key) }

// Set implements propagation.TextMapCarrier.
func (c carrier) Set(key, value string) { c.ev.SetExtension(key, value) }

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return []string{traceparent, tracestate} }
