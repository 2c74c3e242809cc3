package function

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"
)

const (
	scopeName      = "io.kyma-project.serverless"
	mostWaiting    = 4096
	batchSize      = 512
	batchDelay     = 2 * time.Second
	mostBatchDelay = time.Minute
	exportTimeout  = 5 * time.Second
)

// exporter sends spans to the collector in batches: OTLP over HTTP, in its JSON form. A collector that cannot be reached
// costs nothing but the oldest spans.
type exporter struct {
	endpoint, service string
	client            *http.Client
	full              chan struct{}
	begin             sync.Once

	mu      sync.Mutex
	waiting []span
	warned  time.Time
}

// traces is nil without a collector.
var traces = newExporter(settings.collector, settings.name)

func newExporter(endpoint, service string) *exporter {
	if endpoint == "" {
		return nil
	}
	e := &exporter{endpoint: endpoint, service: service, client: &http.Client{Timeout: exportTimeout}, full: make(chan struct{}, 1)}
	if parsed, err := url.Parse(endpoint); err != nil || parsed.Host == "" {
		e.warn("TRACE_COLLECTOR_ENDPOINT is no URL; no spans are sent")
		return nil
	}
	return e
}

// add has a span sent soon.
func (e *exporter) add(made span) {
	e.mu.Lock()
	if len(e.waiting) >= mostWaiting {
		e.waiting = e.waiting[1:]
	}
	e.waiting = append(e.waiting, made)
	enough := len(e.waiting) >= batchSize
	e.mu.Unlock()
	e.begin.Do(func() { go e.run() })
	if enough {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

func (e *exporter) run() {
	for delay := batchDelay; ; {
		select {
		case <-e.full:
		case <-time.After(delay):
		}
		delay = batchDelay
		if !e.sendAll(context.Background()) {
			delay = min(2*delay, mostBatchDelay)
		}
	}
}

// flush sends what is left, as far as there is time.
func (e *exporter) flush() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
	defer cancel()
	e.sendAll(ctx)
}

func (e *exporter) sendAll(ctx context.Context) bool {
	for {
		e.mu.Lock()
		batch := e.waiting[:min(len(e.waiting), batchSize)]
		e.waiting = e.waiting[len(batch):]
		e.mu.Unlock()
		if len(batch) == 0 {
			return true
		}
		if err := e.send(ctx, batch); err != nil {
			e.mu.Lock()
			e.waiting = append(append([]span(nil), batch...), e.waiting...)
			e.waiting = e.waiting[max(0, len(e.waiting)-mostWaiting):]
			e.mu.Unlock()
			e.warn(err.Error())
			return false
		}
	}
}

// send fails when the batch may be taken later.
func (e *exporter) send(ctx context.Context, batch []span) error {
	body, err := json.Marshal(e.encode(batch))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("cannot reach the trace collector: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("the trace collector answered %d", response.StatusCode)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		e.warn(fmt.Sprintf("the trace collector answered %d; %d spans are lost", response.StatusCode, len(batch)))
	}
	return nil
}

func (e *exporter) warn(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.warned) > mostBatchDelay {
		e.warned = time.Now()
		fmt.Fprintln(os.Stderr, text)
	}
}

func (e *exporter) encode(batch []span) map[string]any {
	spans := make([]any, 0, len(batch))
	for i := range batch {
		spans = append(spans, batch[i].encode())
	}
	resource := map[string]any{"attributes": attributesOf(map[string]any{"service.name": e.service, "telemetry.sdk.language": "go"})}
	scope := map[string]any{"scope": map[string]any{"name": scopeName}, "spans": spans}
	return map[string]any{"resourceSpans": []any{map[string]any{"resource": resource, "scopeSpans": []any{scope}}}}
}

func (s *span) encode() map[string]any {
	made := map[string]any{
		"traceId": s.trace, "spanId": s.span, "name": s.name, "kind": s.kind, "attributes": attributesOf(s.attributes),
		"startTimeUnixNano": strconv.FormatInt(s.start.UnixNano(), 10), "endTimeUnixNano": strconv.FormatInt(s.end.UnixNano(), 10),
	}
	if s.parent != "" {
		made["parentSpanId"] = s.parent
	}
	if s.state != "" {
		made["traceState"] = s.state
	}
	if s.failed {
		made["status"] = map[string]any{"code": 2, "message": s.message}
	}
	return made
}

func attributesOf(values map[string]any) []any {
	encoded := make([]any, 0, len(values))
	for key, value := range values {
		typed := map[string]any{"stringValue": value}
		if number, ok := value.(int); ok {
			typed = map[string]any{"intValue": strconv.Itoa(number)}
		}
		encoded = append(encoded, map[string]any{"key": key, "value": typed})
	}
	return encoded
}
