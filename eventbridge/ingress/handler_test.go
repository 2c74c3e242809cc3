package ingress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// fakePublisher records events instead of storing them.
type fakePublisher struct {
	mu     sync.Mutex
	events []cloudevent.Event
	err    error
}

func (f *fakePublisher) Publish(_ context.Context, ev *cloudevent.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.events = append(f.events, *ev)
	}
	return f.err
}

func (f *fakePublisher) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	errs := make([]error, len(events))
	for i, ev := range events {
		errs[i] = f.Publish(ctx, ev)
	}
	return errs
}

func (f *fakePublisher) last(t *testing.T) cloudevent.Event {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Len(t, f.events, 1)
	return f.events[0]
}

func serve(t *testing.T, publisher Publisher, change ...func(*Options)) (url string, registry *prometheus.Registry) {
	t.Helper()
	registry = prometheus.NewRegistry()
	options := DefaultOptions()
	for _, c := range change {
		c(&options)
	}
	server := httptest.NewServer(New(Deps{
		Publisher: publisher, Destination: "nats://here", Connected: func() bool { return true },
		Registerer: registry, Log: logr.Discard(),
	}, options))
	t.Cleanup(server.Close)
	return server.URL, registry
}

// request is one call of a publisher.
type request struct {
	method, path string
	header       map[string]string
	body         string
}

func (r request) send(t *testing.T, url string) (status int, header http.Header, body string) {
	t.Helper()
	if r.method == "" {
		r.method = http.MethodPost
	}
	if r.path == "" {
		r.path = publishPath
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, url+r.path, strings.NewReader(r.body))
	require.NoError(t, err)
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, string(text)
}

func binary(more map[string]string) map[string]string {
	header := map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "1", "Ce-Source": "shop", "Ce-Type": "order.received.v1", "Content-Type": "application/json",
	}
	for name, value := range more {
		if value == "" {
			delete(header, name)
		} else {
			header[name] = value
		}
	}
	return header
}

const structured = "application/cloudevents+json; charset=utf-8"

func TestEventsAreAcceptedInBinaryAndStructuredMode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request  request
		wantData string
	}{
		"binary": {request: request{header: binary(nil), body: `{"a": 1}`}, wantData: `{"a": 1}`},
		"binary with other data": {
			request:  request{header: binary(map[string]string{"Content-Type": "application/octet-stream"}), body: "\xff\x00"},
			wantData: "\xff\x00",
		},
		"binary without data": {request: request{header: binary(map[string]string{"Content-Type": ""})}},
		"structured": {
			request: request{
				header: map[string]string{"Content-Type": structured},
				body:   `{"specversion":"1.0","id":"1","source":"shop","type":"order.received.v1","data":{"a":1}}`,
			},
			wantData: `{"a":1}`,
		},
		"structured with base64": {
			request: request{
				header: map[string]string{"Content-Type": structured},
				body: `{"specversion":"1.0","id":"1","source":"shop","type":"order.received.v1",` +
					`"datacontenttype":"image/png","data_base64":"/wA="}`,
			},
			wantData: "\xff\x00",
		},
		"structured wins over binary headers": {
			request: request{
				header: binary(map[string]string{"Content-Type": structured, "Ce-Id": "2"}),
				body:   `{"specversion":"1.0","id":"1","source":"shop","type":"order.received.v1"}`,
			},
		},
		"the older version of the specification": {
			request:  request{header: binary(map[string]string{"Ce-Specversion": "0.3"}), body: `{}`},
			wantData: `{}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publisher := &fakePublisher{}
			url, _ := serve(t, publisher)
			status, _, body := tc.request.send(t, url)
			require.Equal(t, http.StatusNoContent, status, body)
			require.Empty(t, body)
			ev := publisher.last(t)
			require.Equal(t, "1", ev.ID)
			require.Equal(t, "order.received.v1", ev.Type)
			require.Equal(t, tc.wantData, string(ev.Data))
			published, err := time.Parse(time.RFC3339Nano, ev.Time)
			require.NoError(t, err)
			require.WithinDuration(t, time.Now(), published, time.Minute, "an event without a time gets that of its publishing")
		})
	}
}

func TestThePublishersTimeAndTraceAreKept(t *testing.T) {
	t.Parallel()
	publisher := &fakePublisher{}
	url, _ := serve(t, publisher)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	status, _, _ := request{header: binary(map[string]string{
		"Ce-Time": "2026-01-02T03:04:05Z", "traceparent": trace, "X-B3-TraceId": "abc",
	})}.send(t, url)
	require.Equal(t, http.StatusNoContent, status)
	ev := publisher.last(t)
	require.Equal(t, "2026-01-02T03:04:05Z", ev.Time)
	require.Equal(t, trace, ev.Extension("traceparent"))
	require.Equal(t, "abc", ev.Extension("b3traceid"))
}

func TestInvalidEventsAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request    request
		wantStatus int
		wantText   string
	}{
		"no CloudEvent at all": {
			request: request{header: map[string]string{"Content-Type": "application/json"}, body: "{}"}, wantText: "unknown Message encoding\n",
		},
		"an unknown version": {request: request{header: binary(map[string]string{"Ce-Specversion": "7"})}, wantText: "unknown Message encoding\n"},
		"no type":            {request: request{header: binary(map[string]string{"Ce-Type": ""})}, wantText: "type: MUST be a non-empty string\n"},
		"no id and no source": {
			request: request{header: binary(map[string]string{"Ce-Id": "", "Ce-Source": ""})}, wantText: "id: MUST be a non-empty string\nsource: REQUIRED\n",
		},
		"an invalid time": {request: request{header: binary(map[string]string{"Ce-Time": "today"})}, wantText: "time: MUST be a RFC 3339 timestamp\n"},
		"broken JSON":     {request: request{header: map[string]string{"Content-Type": structured}, body: `{"specversion":`}, wantText: "\n"},
		"base64 that is no text": {
			request: request{
				header: map[string]string{"Content-Type": structured},
				body:   `{"specversion":"1.0","id":"1","source":"shop","type":"order.received.v1","data_base64":5}`,
			},
			wantText: "data_base64: MUST be a string\n",
		},
		"a structured event that is too large": {
			request: request{
				header: map[string]string{"Content-Type": structured},
				body: `{"specversion":"1.0","id":"1","source":"shop","type":"order.received.v1","data":"` +
					strings.Repeat("x", 65536) + `"}`,
			},
			wantText: "http: request body too large\n",
		},
		"an empty body": {request: request{header: map[string]string{"Content-Type": structured}}, wantText: "\n"},
		"data that is not JSON": {
			request: request{header: binary(nil), body: "{broken"}, wantText: "data: MUST be JSON, because datacontenttype says so\n",
		},
		"a body that is too large": {
			request: request{header: binary(nil), body: `"` + strings.Repeat("x", 65536) + `"`}, wantText: "http: request body too large\n",
		},
		"the wrong method": {request: request{method: http.MethodGet}, wantStatus: http.StatusMethodNotAllowed},
		"an unknown path":  {request: request{path: "/publis"}, wantStatus: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publisher := &fakePublisher{}
			url, _ := serve(t, publisher)
			status, header, body := tc.request.send(t, url)
			if tc.wantStatus == 0 {
				tc.wantStatus = http.StatusBadRequest
			}
			require.Equal(t, tc.wantStatus, status, body)
			require.Contains(t, body, tc.wantText)
			require.True(t, strings.HasPrefix(header.Get("Content-Type"), "text/plain"))
			require.Empty(t, publisher.events)
		})
	}
}

func TestABodyThatDoesNotArriveInTimeMayBeSentAgain(t *testing.T) {
	t.Parallel()
	for name, contentType := range map[string]string{"binary": "application/json", "structured": structured} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publisher := &fakePublisher{}
			server := httptest.NewUnstartedServer(New(Deps{
				Publisher: publisher, Connected: func() bool { return true },
				Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
			}, DefaultOptions()))
			server.Config.ReadTimeout = 50 * time.Millisecond
			server.Start()
			t.Cleanup(server.Close)
			slow, end := io.Pipe()
			t.Cleanup(func() { _ = end.Close() })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+publishPath, slow)
			require.NoError(t, err)
			for header, value := range binary(map[string]string{"Content-Type": contentType}) {
				req.Header.Set(header, value)
			}
			resp, err := loopback.Default.Do(req)
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
			require.Equal(t, "1", resp.Header.Get("Retry-After"))
			require.Equal(t, "the request did not arrive in time\n", string(body))
			require.Empty(t, publisher.events)
		})
	}
}

func TestALimitSizedBodyIsTaken(t *testing.T) {
	t.Parallel()
	publisher := &fakePublisher{}
	url, _ := serve(t, publisher)
	status, _, body := request{header: binary(nil), body: `"` + strings.Repeat("x", 65534) + `"`}.send(t, url)
	require.Equal(t, http.StatusNoContent, status, body)
}

func TestAnOutageIsAnsweredWithRetryAfter(t *testing.T) {
	t.Parallel()
	url, registry := serve(t, &fakePublisher{err: failure.ErrNotConnected})
	status, header, body := request{header: binary(nil), body: "{}"}.send(t, url)
	require.Equal(t, http.StatusBadGateway, status)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Equal(t, "no connection to NATS JetStream server\n", body)

	_, _, _ = request{method: "BREW", path: "/coffee"}.send(t, url)
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP eventing_epp_health 1 while events can be stored.
# TYPE eventing_epp_health gauge
eventing_epp_health 1
`), "eventing_epp_health"))
	found := map[string]float64{}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != "eventing_epp_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			var key []string
			for _, label := range metric.GetLabel() {
				key = append(key, label.GetValue())
			}
			found[strings.Join(key, " ")] = metric.GetCounter().GetValue()
		}
	}
	require.InDelta(t, 1, found["502 POST /publish"], 0)
	require.InDelta(t, 1, found["404 other other"], 0)
}

func TestOptionsThatCannotWorkAreNamed(t *testing.T) {
	t.Parallel()
	defaults := DefaultOptions()
	require.NoError(t, flags.Validate(&defaults))
	for name, tc := range map[string]struct {
		arguments []string
		wantErr   string
	}{
		"no bytes":                       {[]string{"--max-request-size=0"}, "--max-request-size must be at least 1"},
		"batches without bytes":          {[]string{"--max-batch-size=0"}, "--max-batch-size must be at least 1"},
		"batches without events":         {[]string{"--max-batch-events=0"}, "--max-batch-events must be at least 1"},
		"no connections":                 {[]string{"--publish-max-connections=0"}, "--publish-max-connections must be at least 1"},
		"less memory than for one event": {[]string{"--publish-max-bytes=65535", "--max-batch-size=1"}, "--publish-max-bytes must be at least"},
		"less memory than for one batch": {[]string{"--publish-max-bytes=1000000"}, "--publish-max-bytes must be at least"},
		"less than no series":            {[]string{"--event-type-series=-1"}, "--event-type-series must be at least 0, is -1"},
		"events larger than batches":     {[]string{"--max-request-size=2000000"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			flags.Bind(fs, &options)
			require.NoError(t, fs.Parse(tc.arguments))
			if err := flags.Validate(&options); tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestPublishErrorsMapToHTTPStatuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err            error
		wantStatus     int
		wantReason     string
		wantRetryAfter bool
	}{
		"stored":                     {wantStatus: http.StatusNoContent},
		"an event that has no route": {err: &failure.InvalidEventError{Reason: "no type"}, wantStatus: 400, wantReason: "no type"},
		"an event that is too large": {err: failure.ErrTooLarge, wantStatus: 400, wantReason: "event is larger than the stream takes"},
		"too many events in flight":  {err: failure.ErrBusy, wantStatus: 429, wantReason: "too many events wait to be stored", wantRetryAfter: true},
		"no connection":              {err: failure.ErrNotConnected, wantStatus: 502, wantReason: "no connection to NATS JetStream server", wantRetryAfter: true},
		"no stream":                  {err: failure.ErrNoStream, wantStatus: 504, wantReason: "cannot send to stream", wantRetryAfter: true},
		"a full stream":              {err: failure.ErrStorageFull, wantStatus: 507, wantReason: "insufficient resources on target stream", wantRetryAfter: true},
		"a stream that is late":      {err: failure.ErrTimeout, wantStatus: 503, wantReason: "no answer from the stream in time", wantRetryAfter: true},
		"an account's limit":         {err: failure.ErrInsufficientResources, wantStatus: 503, wantReason: "the account or the server of NATS has no room for more", wantRetryAfter: true},
		"a repeat of what is stored now": {
			err: failure.ErrInProcess, wantStatus: 503, wantReason: "an earlier publish of the same event is still being stored", wantRetryAfter: true,
		},
		"JetStream's own status":     {err: &failure.APIError{Code: 400, Description: "message too big"}, wantStatus: 400, wantReason: "message too big"},
		"JetStream lacks resources":  {err: &failure.APIError{Code: 503, Description: "insufficient"}, wantStatus: 503, wantReason: "insufficient", wantRetryAfter: true},
		"an invalid status":          {err: &failure.APIError{Code: 10077}, wantStatus: 500, wantReason: "internal error on backend"},
		"a publisher that went away": {err: context.Canceled, wantStatus: 500, wantReason: "internal error on backend"},
		"an error without a mapping": {err: errors.New("secret text"), wantStatus: 500, wantReason: "internal error on backend"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.err
			if err != nil {
				err = fmt.Errorf("publish: %w", err)
			}
			got := responseFor(err)
			require.Equal(t, tc.wantStatus, got.status)
			require.Equal(t, tc.wantReason, got.reason)
			require.Equal(t, tc.wantRetryAfter, got.retryAfter > 0)
		})
	}
}

// taking stores nothing.
type taking struct{ Publisher }

func (taking) Publish(context.Context, *cloudevent.Event) error { return nil }

// BenchmarkPublish is an event on a connection that stays, from the request to its answer.
func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{1 << 10, 60 << 10} {
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			served := make(chan error, 1)
			handler := New(Deps{
				Publisher: taking{}, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
			}, DefaultOptions())
			go func() {
				served <- daemon.Serve(ctx, daemon.Server{Name: "bench", Listener: listener, Handler: handler}, logr.Discard())
			}()
			conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", listener.Addr().String())
			require.NoError(b, err)
			answers := bufio.NewReader(conn)
			request := "POST /publish HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nCe-Specversion: 1.0\r\nCe-Id: 1\r\n" +
				"Ce-Source: shop\r\nCe-Type: order.received.v1\r\nCe-Time: 2026-01-02T03:04:05Z\r\n" +
				fmt.Sprintf("Content-Length: %d\r\n\r\n%q", size, strings.Repeat("x", size-2))
			b.ReportAllocs()
			for b.Loop() {
				_, err := io.WriteString(conn, request)
				require.NoError(b, err)
				answer, err := http.ReadResponse(answers, nil)
				require.NoError(b, err)
				require.NoError(b, answer.Body.Close())
				require.Equal(b, http.StatusNoContent, answer.StatusCode)
			}
			require.NoError(b, conn.Close())
			stop()
			require.NoError(b, <-served)
		})
	}
}
