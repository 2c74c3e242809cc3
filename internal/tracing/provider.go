package tracing

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

const (
	// maxQueue spans wait to be sent; further ones are dropped.
	maxQueue      = 4096
	exportTimeout = 10 * time.Second
	// closeTimeout is how long the last spans may take to be sent.
	closeTimeout = 5 * time.Second
)

// Provider makes tracers whose spans go to the collector.
type Provider struct{ *sdktrace.TracerProvider }

// New makes the Provider of a service, or nil when the options name no collector. It does not wait for one.
func New(ctx context.Context, options Options, service string, log logr.Logger) (*Provider, error) {
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
	return &Provider{sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(options.SampleRatio))),
		sdktrace.WithResource(resource.NewSchemaless(identity(service)...)),
		sdktrace.WithBatcher(&quietExporter{SpanExporter: exporter, log: log}, sdktrace.WithMaxQueueSize(maxQueue)),
	)}, nil
}

func identity(service string) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.ServiceName(service)}
	if host, err := os.Hostname(); err == nil { // which is the pod's name
		attributes = append(attributes, semconv.ServiceInstanceID(host))
	}
	return attributes
}

// Close sends what is left, for a few seconds, also when ctx has ended. Spans that end later are lost. A nil Provider has
// nothing to send.
func (p *Provider) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := p.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}
