package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
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
	"github.com/rouse-run/rouse/internal/failure"
)

// attackers is the number of connections of an attack. Half of them would take all memory for requests.
const attackers, attackedMemory = 16, 8 << 20

const (
	attackedBinary = "POST /publish HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n" +
		"Ce-Specversion: 1.0\r\nCe-Id: 1\r\nCe-Source: shop\r\nCe-Type: order.received.v1\r\n"
	attackedBatch = "POST /publish HTTP/1.1\r\nHost: h\r\nContent-Type: " + typeBatch + "\r\n"
)

func TestPublishersAreServedDespiteHeldConnections(t *testing.T) {
	t.Parallel()
	almost := strings.Repeat(" ", 1<<20-1)
	failing := "[" + strings.Repeat(`{"specversion":"1.0","id":"`+strings.Repeat("<", 300)+`","source":"s"},`, 255) + "1]"
	for name, request := range map[string]string{
		"announce and send nothing":      attackedBatch + "Content-Length: 1048576\r\n\r\n",
		"send all but the last byte":     attackedBatch + "Content-Length: 1048576\r\n\r\n" + almost,
		"send chunks without an end":     attackedBatch + "Transfer-Encoding: chunked\r\n\r\nfffff\r\n" + almost,
		"do not read an answer":          attackedBinary + "Content-Length: 2\r\n\r\n{}",
		"do not read what became of all": strings.Repeat(attackedBatch+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(failing), failing), 4),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			options.MaxBytesInFlight = attackedMemory
			handler := newHandler(Deps{
				Publisher: &fakePublisher{}, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
			}, options)
			server := httptest.NewServer(http.HandlerFunc(handler.publish))
			t.Cleanup(server.Close)
			for range attackers {
				attack(t, server.Listener.Addr().String(), request)
			}
			if strings.HasPrefix(name, "send") {
				require.Eventually(t, func() bool { return handler.memory.used.Load() > attackedMemory*9/10 }, timeout, moment)
			}
			for i := range 50 {
				status, _, body := publishOf(t, server.URL, 60<<10)
				require.Equal(t, http.StatusNoContent, status, "event %d: %s", i, body)
			}
			require.LessOrEqual(t, handler.memory.used.Load(), handler.memory.limit)
		})
	}
}

func publishOf(t *testing.T, url string, size int) (status int, header http.Header, body string) {
	t.Helper()
	return request{header: binary(nil), body: `"` + strings.Repeat("x", size-2) + `"`}.send(t, url)
}

// attack sends as much of a request as the server reads, and leaves the connection open.
func attack(t *testing.T, address, request string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(context.WithoutCancel(t.Context()), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, request)
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-sent
	})
}

func TestMemoryIsGivenBackBeforeTheAnswerIsRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, contentType, body string
	}{
		"of an event":           {publishPath, structured, member("1")},
		"of what is no event":   {publishPath, structured, "{}"},
		"of a batch":            {publishPath, typeBatch, "[" + member("1") + "]"},
		"of a batch that fails": {publishPath, typeBatch, "[{}]"},
		"of a legacy event":     {legacyURI, typeJSON, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHandler(Deps{
				Publisher: &fakePublisher{}, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
			}, DefaultOptions())
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tc.path, strings.NewReader(tc.body))
			r.Header.Set("Content-Type", tc.contentType)
			r.SetPathValue("application", "shop")
			serve := h.publish
			if tc.path == legacyURI {
				serve = h.publishLegacy
			}
			answered := 0
			serve(answering{httptest.NewRecorder(), func() {
				answered++
				require.Zero(t, h.memory.used.Load())
			}}, r)
			require.Positive(t, answered)
			require.Zero(t, h.answers.used.Load())
		})
	}
}

// answering calls answered whenever the answer is written.
type answering struct {
	http.ResponseWriter
	answered func()
}

func (a answering) WriteHeader(status int) {
	a.answered()
	a.ResponseWriter.WriteHeader(status)
}

func (a answering) Write(p []byte) (int, error) {
	a.answered()
	return a.ResponseWriter.Write(p)
}

func TestUnreadBatchAnswersAreReducedToTheirStatus(t *testing.T) {
	t.Parallel()
	h := newHandler(Deps{
		Publisher: &fakePublisher{}, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
	}, DefaultOptions())
	require.True(t, h.answers.acquire(h.answers.limit))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, publishPath, strings.NewReader("[{}]"))
	r.Header.Set("Content-Type", typeBatch)
	recorder := httptest.NewRecorder()
	h.publish(recorder, r)
	require.Equal(t, http.StatusBadRequest, recorder.Code)
	require.Equal(t, "too many batches are being answered to say what became of each event\n", recorder.Body.String())
}

func TestAnAnswerQuotesLittleOfWhatWasSent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<", 5000)
	url, _ := serve(t, &fakePublisher{})
	status, _, body := batchOf(`{"specversion":"1.0","id":"`+long+`","source":"`+long+`"}`).send(t, url)
	require.Equal(t, http.StatusBadRequest, status)
	require.Less(t, len(body), 2*6*(longestQuote+3)+200)
	require.Equal(t, longestQuote, strings.Count(brief(strings.Repeat("é", 5000))[:longestQuote], "é")*2)
}

func TestAnEventHasNoMoreExtensionsThanASinkTakes(t *testing.T) {
	t.Parallel()
	publisher := &fakePublisher{}
	url, _ := serve(t, publisher)
	for name, tc := range map[string]struct {
		extensions, bytes int
		want              string
	}{
		"as many as may be": {64, 1, ""},
		"one more":          {65, 1, "the event has more than 64 extensions\n"},
		"large ones":        {2, 8 << 10, "the event has more than 16384 bytes of attributes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header, members := map[string]string{}, strings.Builder{}
			for i := range tc.extensions {
				value := strings.Repeat("x", tc.bytes)
				header[fmt.Sprintf("Ce-X%d", i)] = value
				fmt.Fprintf(&members, `,"x%d":%q`, i, value)
			}
			for mode, r := range map[string]request{
				"binary":     {header: binary(header), body: "{}"},
				"structured": {header: map[string]string{"Content-Type": structured}, body: member("1", members.String())},
			} {
				status, _, body := r.send(t, url)
				require.Equal(t, tc.want, body, mode)
				require.Equal(t, tc.want == "", status == http.StatusNoContent, mode)
			}
		})
	}
}

func TestAWebPageOfAnotherOriginPublishesNothing(t *testing.T) {
	t.Parallel()
	const simple, beside = "text/plain", "cross-site"
	for name, tc := range map[string]struct {
		header map[string]string
		status int
	}{
		"a page elsewhere":                         {map[string]string{"Content-Type": simple, "Origin": "https://evil.example"}, http.StatusForbidden},
		"a page elsewhere, by fetch metadata":      {map[string]string{"Content-Type": simple, "Sec-Fetch-Site": beside}, http.StatusForbidden},
		"a page of another port":                   {map[string]string{"Content-Type": simple, "Sec-Fetch-Site": "same-site"}, http.StatusForbidden},
		"a sandboxed page":                         {map[string]string{"Content-Type": "TEXT/plain;charset=utf-8", "Origin": "null"}, http.StatusForbidden},
		"a form":                                   {map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Origin": "https://evil.example"}, http.StatusForbidden},
		"a form with files":                        {map[string]string{"Content-Type": "multipart/form-data; boundary=x", "Origin": "https://evil.example"}, http.StatusForbidden},
		"a blob without a type":                    {map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		"a page of the publisher's own":            {map[string]string{"Content-Type": simple, "Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.gateway"}, http.StatusOK},
		"a page that a gateway's CORS lets in":     {map[string]string{"Content-Type": typeJSON, "Origin": "https://shop.example", "Sec-Fetch-Site": beside}, http.StatusOK},
		"curl, which is no browser, with its form": {map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serve(t, &legacyPublisher{})
			status, _, body := request{method: http.MethodPost, path: legacyURI, header: tc.header, body: legacyBody()}.send(t, url)
			require.Equal(t, tc.status, status, body)
			if tc.status != http.StatusForbidden {
				return
			}
			require.Contains(t, body, "a web page of another origin")
			binary := map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "shop", "Ce-Type": "order.received.v1"}
			maps.Copy(binary, tc.header)
			status, _, body = request{method: http.MethodPost, path: "/publish", header: binary, body: "{}"}.send(t, url)
			require.Equal(t, http.StatusForbidden, status, body)
		})
	}
}

// strict takes what the stream takes, as far as the event alone decides that.
type strict struct{ fakePublisher }

func (s *strict) Publish(ctx context.Context, ev *cloudevent.Event) error {
	if err := errors.Join(ev.Validate(), ev.CheckText()); err != nil {
		return &failure.InvalidEventError{Reason: err.Error()}
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

// answerFits checks that the response is part of the contract, and returns what was stored.
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
