package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// strict takes what the stream takes, as far as the event alone decides that.
type strict struct{ fakePublisher }

func (s *strict) Publish(ctx context.Context, ev *cloudevent.Event) error {
	if err := errors.Join(ev.Validate(), ev.CheckText()); err != nil {
		return &InvalidEventError{Reason: err.Error()}
	}
	return s.fakePublisher.Publish(ctx, ev)
}

func (s *strict) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	errs := make([]error, len(events))
	for i, ev := range events {
		errs[i] = s.Publish(ctx, ev)
	}
	return errs
}

func (s *strict) PublishLegacy(ctx context.Context, ev *cloudevent.Event, _ string) error {
	return s.Publish(ctx, ev)
}

// FuzzPublish: any headers and any bytes get an answer of the contract, what is answered as stored was stored, and what
// was stored can be delivered.
func FuzzPublish(f *testing.F) {
	const binaryHeaders = "Ce-Specversion: 1.0\nCe-Id: 1\nCe-Source: shop\nCe-Type: order.received.v1\n"
	f.Add("application/json", binaryHeaders+"Traceparent: 00-1\nTracestate: a=b", []byte(`{"a":1}`), false)
	f.Add("image/png", binaryHeaders+"Ce-Ü: x\nX-B3-Traceid: \xff\x01", []byte("\xff\x00"), true)
	f.Add("text/plain", "Ce-Specversion: 0.3\nCe-Id: 1\nCe-Source: %zz\nCe-Type: t\nCe-Datacontentencoding: base64", []byte("AAH/"), true)
	f.Add(structured, "", []byte(member("1", `,"x":1,"y":false,"data":{"a":[1,"}"]}`)), false)
	f.Add(structured, "Ce-Specversion: 1.0", []byte(member("\\u00e4\\n", `,"traceparent":"\u0000","data_base64":"AAH/"`)), true)
	f.Add(typeBatch, "Traceparent: 00-1", []byte("["+member("1")+", "+member("2", `,"time":"today"`)+",7,{}]"), false)
	f.Add(typeBatch, "", []byte("[]"), false)
	f.Add("", "", []byte(nil), false)
	publisher := &strict{}
	options := DefaultOptions()
	options.MaxRequestSize, options.MaxBatchSize, options.MaxBatchEvents = 4<<10, 8<<10, 5
	handler := New(Deps{
		Publisher: publisher, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
	}, options)
	f.Fuzz(func(t *testing.T, contentType, headers string, body []byte, announced bool) {
		publisher.events = nil
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, publishPath, bytes.NewReader(body))
		if !announced {
			r.ContentLength = -1
		}
		for line := range strings.Lines(headers) {
			if name, value, ok := strings.Cut(line, ":"); ok {
				r.Header.Add(name, strings.TrimSpace(value))
			}
		}
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		answerFits(t, w, publisher.events)
		for i := range publisher.events {
			canBeDelivered(t, publisher.events[i])
		}
	})
}

// answerFits checks that the answer is one of the contract, and says what was stored.
func answerFits(t *testing.T, w *httptest.ResponseRecorder, stored []cloudevent.Event) {
	t.Helper()
	if w.Code == http.StatusNoContent {
		require.Empty(t, w.Body.String())
		require.NotEmpty(t, stored)
		return
	}
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.True(t, strings.HasSuffix(w.Body.String(), "\n"))
	if w.Header().Get("Content-Type") != typeJSON {
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
		require.Empty(t, stored)
		return
	}
	var results []result
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &results))
	good := 0
	for _, r := range results {
		switch r.Status {
		case http.StatusNoContent:
			require.Equal(t, strings.ToValidUTF8(stored[good].ID, "\ufffd"), r.ID)
			good++
		case http.StatusBadRequest:
			require.NotEmpty(t, r.Reason)
		default:
			require.Fail(t, "not in the contract", r.Status)
		}
	}
	require.Len(t, stored, good)
}

// canBeDelivered takes an event from the stream to the request of a sink.
func canBeDelivered(t *testing.T, ev cloudevent.Event) {
	t.Helper()
	written := ev.AppendStructured(nil)
	read, err := cloudevent.FromStructured(written)
	require.NoError(t, err, "%q", written)
	require.NoError(t, read.Validate(), "%q", written)
	require.Equal(t, string(ev.Data), string(read.Data))
	for _, attribute := range []string{"id", "source", "type", "subject", "time", "datacontenttype", "dataschema"} {
		was, _ := ev.Attribute(attribute)
		is, _ := read.Attribute(attribute)
		require.Equal(t, was, is, attribute)
	}
	require.True(t, slices.Equal(ev.Extensions, read.Extensions), "%q", written)
	header := http.Header{}
	read.SetHeader(header)
	tracecontext.Inject(header)
	for name, values := range header {
		require.Regexp(t, `^[A-Za-z0-9-]+$`, name)
		require.NotContains(t, []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}, name)
		for i := range len(values[0]) {
			c := values[0][i]
			require.False(t, (c < ' ' && c != '\t') || c == 0x7f, "%q cannot be sent", values[0])
		}
	}
}
