package tracing

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	serviceName = "rouse-eventbridge"
	scope       = "github.com/rouse-run/rouse/eventbridge"

	// maxQueue spans wait to be sent; further ones are dropped.
	maxQueue      = 4096
	exportTimeout = 10 * time.Second
	// CloseTimeout is how long the last spans may take to be sent.
	CloseTimeout = 5 * time.Second
)

// Tracer makes spans of what the bridge does with an event. Each span is the parent of what comes after it: the event
// carries its context on.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	w3c      propagation.TraceContext
}

// New makes the Tracer of the options, or nil when they name no collector. It does not wait for one.
func New(ctx context.Context, options Options, log logr.Logger) (*Tracer, error) {
	endpoint, err := options.url()
	if err != nil || endpoint == "" {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(endpoint),
		otlptracehttp.WithTimeout(exportTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: time.Second, MaxInterval: 5 * time.Second, MaxElapsedTime: exportTimeout,
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("make the exporter of spans: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(options.SampleRatio))),
		sdktrace.WithResource(resource.NewSchemaless(identity()...)),
		sdktrace.WithBatcher(&quietExporter{SpanExporter: exporter, log: log}, sdktrace.WithMaxQueueSize(maxQueue)),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer(scope)}, nil
}

func identity() []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.ServiceName(serviceName)}
	if host, err := os.Hostname(); err == nil { // which is the pod's name
		attributes = append(attributes, semconv.ServiceInstanceID(host))
	}
	return attributes
}

// Close sends what is left, until ctx ends. Spans that end later are lost. A nil Tracer has nothing to send.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}
