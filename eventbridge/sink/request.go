package sink

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"

	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// headers of a usual event.
const headers = 12

// via tells a Function's pod that the bridge counts the call, too.
var via = []string{activation.ViaEventbridge}

// newRequest writes an event in binary mode in the sink's name, addressed to where it goes.
func (s *Sink) newRequest(ctx context.Context, to *url.URL, ev *cloudevent.Event) *http.Request {
	req := (&http.Request{
		Method: http.MethodPost, URL: to, Host: s.url.Host, Header: make(http.Header, headers),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	ev.SetHeader(req.Header)
	tracecontext.Inject(req.Header)
	if s.login != nil {
		req.Header["Authorization"] = s.login
	}
	if !s.target.External {
		req.Header[activation.HeaderVia] = via
	}
	if len(ev.Data) == 0 {
		return req
	}
	req.ContentLength = int64(len(ev.Data))
	req.Body = io.NopCloser(bytes.NewReader(ev.Data)) // net/http knows it, and writes it together with the header
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(ev.Data)), nil }
	return req
}

// loginOf is the header for a user and password in the URL.
func loginOf(sink *url.URL) []string {
	if sink.User == nil {
		return nil
	}
	password, _ := sink.User.Password()
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(sink.User.Username()+":"+password))}
}
