package tracing

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// Live makes the spans of a service whose collector may change, come and go while it runs. It is a trace.TracerProvider, and its
// tracers stay usable.
type Live struct {
	embedded.TracerProvider

	service string
	log     logr.Logger
	current atomic.Pointer[Provider] // nil without a collector

	mu      sync.Mutex
	options Options
	closing sync.WaitGroup
}

// NewLive begins with the options' collector, or without one. It does not wait for it.
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

// Collect sends spans to another collector from now on, and to none when the endpoint is empty. The one before gets what has ended
// until now, for a few seconds; meanwhile nothing waits. Nothing changes when it fails.
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

// Close sends what is left, as Provider.Close does.
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

// liveTracer asks whoever is the provider at each span.
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
