package otlptest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector stores the spans that it receives.
type Collector struct {
	URL string // without a path

	mu       sync.Mutex
	spans    []*tracev1.Span
	resource map[string]string
}

// Start runs a collector until the test ends.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{resource: map[string]string{}}
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Spans returns the spans received so far.
func (c *Collector) Spans() []*tracev1.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Resource returns an attribute of the process that sent spans.
func (c *Collector) Resource(attribute string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource[attribute]
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	request, err := read(r)
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
		http.Error(w, "this is not OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sent := range request.GetResourceSpans() {
		for _, attribute := range sent.GetResource().GetAttributes() {
			c.resource[attribute.GetKey()] = attribute.GetValue().GetStringValue()
		}
		for _, scope := range sent.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

func read(r *http.Request) (*collectorv1.ExportTraceServiceRequest, error) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		body = unpacked
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	request := &collectorv1.ExportTraceServiceRequest{}
	return request, proto.Unmarshal(content, request)
}
