package sink

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/tracing"
)

// headers of a usual event.
const headers = 12

// newRequest writes an event in binary mode for the sink, addressed to one of its endpoints.
func newRequest(ctx context.Context, sink *url.URL, address string, ev *event.Event) (*http.Request, error) {
	target := *sink
	target.Host = address
	req := (&http.Request{
		Method: http.MethodPost, URL: &target, Host: sink.Host, Header: make(http.Header, headers),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if err := cehttp.WriteRequest(binding.WithForceBinary(ctx), (*binding.EventMessage)(ev), req); err != nil {
		return nil, fmt.Errorf("%w: %w", dispatch.ErrUnsendable, err)
	}
	tracing.Inject(req.Header)
	for _, values := range req.Header {
		for i := range values {
			values[i] = headerValue(values[i])
		}
	}
	return req, nil
}

// headerValue percent-encodes the control characters that a header cannot carry. The rest is left as it
// is, because few receivers decode what the CloudEvents binding would have encoded.
func headerValue(value string) string {
	if strings.IndexFunc(value, isControl) < 0 {
		return value
	}
	var b strings.Builder
	for _, r := range value {
		if isControl(r) {
			fmt.Fprintf(&b, "%%%02X", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isControl(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }
