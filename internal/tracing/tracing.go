package tracing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rouse-run/rouse/internal/flags"
)

// Options configure the collector.
type Options struct {
	Endpoint    string  // URL of an OTLP collector over HTTP; empty: no spans
	SampleRatio float64 // share of the traces begun here that are recorded; the publisher decides for others
}

// DefaultOptions returns options without a collector and with a ratio of 1.
func DefaultOptions() Options { return Options{SampleRatio: 1} }

// Flags declares the --trace-* flags.
func (o *Options) Flags(fs *flags.Set) {
	_, err := o.url()
	fs.String(&o.Endpoint, "trace-endpoint",
		"URL of the OTLP collector that spans are sent to over HTTP, like http://collector:4318/v1/traces; no spans when empty").
		Must(err == nil, "be a URL of http or https")
	fs.Float64(&o.SampleRatio, "trace-sample-ratio",
		"share of the traces begun here that are recorded, from 0 to 1; for others their publisher decided").Between(0, 1)
}

// url returns the endpoint, with OTLP's default path if it has none. It is empty without an endpoint.
func (o *Options) url() (string, error) {
	if o.Endpoint == "" {
		return "", nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", errors.New("--trace-endpoint must be a URL of http or https")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

const (
	// maxQueue bounds the spans that wait to be sent; further ones are dropped.
	maxQueue      = 4096
	exportTimeout = 10 * time.Second
	// closeTimeout bounds the time for sending the last spans.
	closeTimeout = 5 * time.Second
)

// Provider is a provider of tracers whose spans are sent to the collector.
type Provider struct{ *sdktrace.TracerProvider }

// New returns the Provider of a service, or nil when the options name no collector. It does not wait for the collector.
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
	if host, err := os.Hostname(); err == nil { // the pod's name
		attributes = append(attributes, semconv.ServiceInstanceID(host))
	}
	return attributes
}

// Close sends the remaining spans, with a timeout of a few seconds, even when ctx has ended. Spans that end later are
// lost. A nil Provider has none.
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

// quietExporter drops spans that cannot be sent, and logs once per outage: the SDK would log each failure.
type quietExporter struct {
	sdktrace.SpanExporter
	log logr.Logger

	mu      sync.Mutex
	failing bool
}

// ExportSpans implements sdktrace.SpanExporter.
func (q *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case err != nil && !q.failing:
		q.log.Info("cannot send spans, they are lost until the collector answers", "reason", err.Error())
	case err == nil && q.failing:
		q.log.Info("sending spans again")
	}
	q.failing = err != nil
	return nil
}

// Live is a trace.TracerProvider whose collector may change, appear and disappear at runtime. Its tracers remain
// usable.
type Live struct {
	embedded.TracerProvider

	service string
	log     logr.Logger
	current atomic.Pointer[Provider] // nil without a collector

	mu      sync.Mutex
	options Options
	closing sync.WaitGroup
}

// NewLive starts with the options' collector, if any. It does not wait for the collector.
func NewLive(ctx context.Context, options Options, service string, log logr.Logger) (*Live, error) {
	l := &Live{service: service, log: log, options: options}
	provider, err := New(ctx, options, service, log)
	if err != nil {
		return nil, err
	}
	l.current.Store(provider)
	return l, nil
}

// Active reports whether there is a collector.
func (l *Live) Active() bool { return l.current.Load() != nil }

// Collect sends further spans to another collector, or to none when the endpoint is empty. Spans that have ended are
// sent to the previous collector in the background, with a timeout of a few seconds. On an error the collector does not
// change.
func (l *Live) Collect(endpoint string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.options
	if next.Endpoint = endpoint; next == l.options {
		return nil
	}
	provider, err := New(context.Background(), next, l.service, l.log)
	if err != nil {
		return err
	}
	l.options = next
	if before := l.current.Swap(provider); before != nil {
		l.closing.Go(func() {
			if err := before.Close(context.Background()); err != nil {
				l.log.Info("the last spans for the collector before are lost", "reason", err.Error())
			}
		})
	}
	return nil
}

// Close sends the remaining spans like Provider.Close.
func (l *Live) Close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.closing.Wait()
	return l.current.Swap(nil).Close(ctx)
}

// Tracer implements trace.TracerProvider.
func (l *Live) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return &liveTracer{live: l, name: name, options: options}
}

// liveTracer uses the current provider for each span.
type liveTracer struct {
	embedded.Tracer

	live    *Live
	name    string
	options []trace.TracerOption
}

// Start implements trace.Tracer.
func (t *liveTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	provider := t.live.current.Load()
	if provider == nil {
		return noop.Tracer{}.Start(ctx, name, options...) //nolint:spancheck // it is the caller's to end
	}
	return provider.Tracer(t.name, t.options...).Start(ctx, name, options...) //nolint:spancheck // the same
}
