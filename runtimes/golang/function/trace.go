package function

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// place is a position in a trace: W3C Trace Context, Baggage, and B3.
type place struct {
	trace, span    string
	sampled        bool
	state, baggage string
	parent         string // the parent span, if this process made this one
}

const (
	zeroTrace = "00000000000000000000000000000000"
	zeroSpan  = "0000000000000000"
)

func newPlace() place {
	var random [24]byte
	_, _ = rand.Read(random[:]) // never fails
	text := hex.EncodeToString(random[:])
	return place{trace: text[:32], span: text[32:], sampled: true}
}

func (p place) child() place {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	p.parent, p.span = p.span, hex.EncodeToString(random[:])
	return p
}

// onto writes the position into headers, in every format.
func (p place) onto(header http.Header) {
	flag := "0"
	if p.sampled {
		flag = "1"
	}
	header.Set("Traceparent", "00-"+p.trace+"-"+p.span+"-0"+flag)
	header.Set("X-B3-Traceid", p.trace)
	header.Set("X-B3-Spanid", p.span)
	header.Set("X-B3-Sampled", flag)
	if p.state != "" {
		header.Set("Tracestate", p.state)
	}
	if p.baggage != "" {
		header.Set("Baggage", p.baggage)
	}
}

// placeOf returns the position in a request's headers, if there is one.
func placeOf(header http.Header) (place, bool) {
	found, ok := fromW3C(header)
	if !ok {
		found, ok = fromB3(header)
	}
	found.baggage = header.Get("Baggage")
	return found, ok
}

func fromW3C(header http.Header) (place, bool) {
	parts := strings.Split(strings.TrimSpace(header.Get("Traceparent")), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return place{}, false
	}
	flags, err := strconv.ParseUint(parts[3], 16, 8)
	if err != nil || len(parts[3]) != 2 || !isID(parts[1], zeroTrace) || !isID(parts[2], zeroSpan) {
		return place{}, false
	}
	return place{trace: parts[1], span: parts[2], sampled: flags&1 == 1, state: header.Get("Tracestate")}, true
}

func fromB3(header http.Header) (place, bool) {
	trace := strings.ToLower(strings.TrimSpace(header.Get("X-B3-Traceid")))
	if len(trace) == len(zeroSpan) {
		trace = zeroSpan + trace
	}
	span := strings.ToLower(strings.TrimSpace(header.Get("X-B3-Spanid")))
	if !isID(trace, zeroTrace) || !isID(span, zeroSpan) {
		return place{}, false
	}
	sampled := true
	if text := strings.ToLower(strings.TrimSpace(header.Get("X-B3-Sampled"))); text != "" {
		sampled = text == "1" || text == "true" || text == "d"
	}
	return place{trace: trace, span: span, sampled: sampled || strings.TrimSpace(header.Get("X-B3-Flags")) == "1"}, true
}

func isID(text, zero string) bool {
	return len(text) == len(zero) && text != zero && strings.Trim(text, "0123456789abcdef") == ""
}

// Trace adds the trace of the call to a request that the handler makes: http.DefaultClient does not do so itself.
func Trace(ctx context.Context, request *http.Request) {
	placeIn(ctx).onto(request.Header)
}

// placeIn returns the position of the call, or a new trace outside of a call.
func placeIn(ctx context.Context) place {
	if call := callOf(ctx); call != nil {
		return call.place
	}
	return newPlace()
}

const (
	kindServer = 2
	kindClient = 3
)

// span is a completed span.
type span struct {
	place
	name       string
	kind       int
	start, end time.Time
	attributes map[string]any // strings and ints
	failed     bool
	message    string
}

// beginServer returns the position of a call below the one in its request.
func beginServer(header http.Header) place {
	found, ok := placeOf(header)
	switch {
	case !ok:
		return newPlace()
	case traces == nil:
		return found
	}
	return found.child()
}

// endServer records the span of a call.
func (c *call) endServer(status int, err error, expired bool) {
	if traces == nil || !c.place.sampled {
		return
	}
	r := c.request
	made := span{place: c.place, name: r.Method, kind: kindServer, start: c.start, end: time.Now(), attributes: map[string]any{
		"http.request.method": r.Method, "url.path": r.URL.Path, "url.scheme": "http", "http.response.status_code": status,
		"client.address": r.RemoteAddr, "server.address": r.Host, "user_agent.original": r.UserAgent(),
	}}
	if expired || status >= http.StatusInternalServerError {
		made.failed = true
		made.message = strconv.Itoa(status)
		if err != nil {
			made.message = err.Error()
		}
		made.attributes["error"], made.attributes["error.type"] = made.message, strconv.Itoa(status)
	}
	traces.add(made)
}

// client is the span of a request that a call makes.
type client struct {
	span
	recorded bool
}

// beginClient adds the trace of the call to a request.
func beginClient(ctx context.Context, request *http.Request) *client {
	at := placeIn(ctx)
	recorded := traces != nil && at.sampled
	if recorded {
		at = at.child()
	}
	at.onto(request.Header)
	return &client{recorded: recorded, span: span{
		place: at, name: request.Method, kind: kindClient, start: time.Now(),
		attributes: map[string]any{
			"http.request.method": request.Method, "url.full": request.URL.Scheme + "://" + request.URL.Host + request.URL.Path,
		},
	}}
}

// end records the response's status, or else the error.
func (c *client) end(status int, failure string) {
	if !c.recorded {
		return
	}
	c.span.end = time.Now()
	if status != 0 {
		c.attributes["http.response.status_code"] = status
		if status >= http.StatusBadRequest {
			failure = strconv.Itoa(status)
		}
	}
	if failure != "" {
		c.attributes["error.type"] = failure
		c.failed, c.message = true, failure
	}
	traces.add(c.span)
}

const (
	scopeName      = "io.kyma-project.serverless"
	mostWaiting    = 4096
	batchSize      = 512
	batchDelay     = 2 * time.Second
	mostBatchDelay = time.Minute
	exportTimeout  = 5 * time.Second
)

// exporter sends spans to the collector in batches: OTLP over HTTP, in its JSON form. With an unreachable collector
// only the oldest spans are lost.
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

// add queues a span to be sent soon.
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

// flush sends the remaining spans within a time limit.
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

// send returns an error when a retry of the batch may succeed.
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
