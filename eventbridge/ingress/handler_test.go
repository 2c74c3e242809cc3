package ingress

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// fakePublisher keeps events instead of storing them.
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
		"a time that is none": {request: request{header: binary(map[string]string{"Ce-Time": "today"})}, wantText: "time: MUST be a RFC 3339 timestamp\n"},
		"broken JSON":         {request: request{header: map[string]string{"Content-Type": structured}, body: `{"specversion":`}, wantText: "\n"},
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
	url, registry := serve(t, &fakePublisher{err: ErrNotConnected})
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
