package tracing

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// quietExporter loses spans that cannot be sent, and says so once per outage: the SDK would log each failure.
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
