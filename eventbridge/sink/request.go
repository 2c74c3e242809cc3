package sink

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/rouse-run/rouse/eventbridge/tracing"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// headers of a usual event.
const headers = 12

// newRequest writes an event in binary mode for the sink, addressed to one of its endpoints.
func newRequest(ctx context.Context, sink *url.URL, address string, ev *cloudevent.Event) *http.Request {
	target := *sink
	target.Host = address
	req := (&http.Request{
		Method: http.MethodPost, URL: &target, Host: sink.Host, Header: make(http.Header, headers),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	ev.SetHeader(req.Header)
	tracing.Inject(req.Header)
	if len(ev.Data) == 0 {
		return req
	}
	req.ContentLength = int64(len(ev.Data))
	req.Body = io.NopCloser(bytes.NewReader(ev.Data))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(ev.Data)), nil }
	return req
}
