package ingress

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

func member(id string, more ...string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"shop","type":"order.received.v1"` + strings.Join(more, "") + `}`
}

func batchOf(members ...string) request {
	return request{header: map[string]string{"Content-Type": typeBatch + "; charset=utf-8"}, body: "[" + strings.Join(members, ",") + "]"}
}

// judging answers for each event by its id.
type judging struct {
	fakePublisher
	errs map[string]error
}

func (j *judging) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	errs := make([]error, len(events))
	for i, ev := range events {
		if errs[i] = j.errs[ev.ID]; errs[i] == nil {
			errs[i] = j.Publish(ctx, ev)
		}
	}
	return errs
}

func (f *fakePublisher) ids() []string {
	var ids []string
	for i := range f.events {
		ids = append(ids, f.events[i].ID)
	}
	return ids
}

func TestABatchIsAnsweredForEachOfItsEvents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		members        []string
		errs           map[string]error
		wantStatus     int
		wantBody       string
		wantStored     []string
		wantRetryAfter string
	}{
		"all are stored": {
			members: []string{member("1"), " " + member("2", `,"data":{"a": 1}`) + "\n"}, wantStatus: 204, wantStored: []string{"1", "2"},
		},
		"one is malformed": {
			members:    []string{member("1"), `{"specversion":"1.0","id":"2","source":"shop"}`, member("3")},
			wantStatus: 400, wantStored: []string{"1", "3"},
			wantBody: `[{"id":"1","source":"shop","status":204},` +
				`{"id":"2","source":"shop","status":400,"reason":"type: MUST be a non-empty string"},` +
				`{"id":"3","source":"shop","status":204}]`,
		},
		"one is no event at all": {
			members: []string{`7`, member("2")}, wantStatus: 400, wantStored: []string{"2"},
			wantBody: `[{"status":400,"reason":"the body is not a structured CloudEvent"},{"id":"2","source":"shop","status":204}]`,
		},
		"one is too large": {
			members: []string{member("1", `,"data":"`+strings.Repeat("x", 200)+`"`), member("2")}, wantStatus: 400, wantStored: []string{"2"},
			wantBody: `[{"status":400,"reason":"the event is larger than 200 bytes"},{"id":"2","source":"shop","status":204}]`,
		},
		"one cannot be stored now, which counts more than one that never can": {
			members:    []string{`{}`, member("2"), member("3")},
			errs:       map[string]error{"3": failure.ErrTimeout},
			wantStatus: 503, wantStored: []string{"2"}, wantRetryAfter: "1",
			wantBody: `[{"status":400,"reason":"the body is not a structured CloudEvent"},{"id":"2","source":"shop","status":204},` +
				`{"id":"3","source":"shop","status":503,"reason":"no answer from the stream in time"}]`,
		},
		"the longest Retry-After is sent": {
			members:    []string{member("1"), member("2")},
			errs:       map[string]error{"1": failure.ErrBusy, "2": failure.ErrStorageFull},
			wantStatus: 429, wantRetryAfter: "10",
			wantBody: `[{"id":"1","source":"shop","status":429,"reason":"too many events wait to be stored"},` +
				`{"id":"2","source":"shop","status":507,"reason":"insufficient resources on target stream"}]`,
		},
		"none is an event": {
			members: []string{`null`}, wantStatus: 400, wantBody: `[{"status":400,"reason":"the body is not a structured CloudEvent"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publisher := &judging{errs: tc.errs}
			url, _ := serve(t, publisher, func(o *Options) { o.MaxRequestSize = 200 })
			status, header, body := batchOf(tc.members...).send(t, url)
			require.Equal(t, tc.wantStatus, status, body)
			require.Equal(t, tc.wantRetryAfter, header.Get("Retry-After"))
			require.Equal(t, tc.wantStored, publisher.ids())
			if tc.wantBody == "" {
				require.Empty(t, body)
				return
			}
			require.Equal(t, tc.wantBody+"\n", body)
			require.Equal(t, "application/json", header.Get("Content-Type"))
		})
	}
}

func TestInvalidBatchesAreRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ body, wantText string }{
		"an empty batch":     {"[]", "the batch has no events\n"},
		"too many events":    {"[" + strings.Repeat(member("1")+",", 3) + member("2") + "]", "the batch has too many events: at most 3\n"},
		"an event":           {member("1"), "the body is not a batch of CloudEvents: a JSON array\n"},
		"half a batch":       {"[" + member("1") + ",", "the body is not a batch of CloudEvents: a JSON array\n"},
		"no body":            {"", "the body is not a batch of CloudEvents: a JSON array\n"},
		"too many bytes":     {"[" + member("1", `,"data":"`+strings.Repeat("x", 1000)+`"`) + "]", "http: request body too large\n"},
		"more after a batch": {"[" + member("1") + "]]", "the body is not a batch of CloudEvents: a JSON array\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publisher := &fakePublisher{}
			url, _ := serve(t, publisher, func(o *Options) { o.MaxBatchEvents, o.MaxBatchSize, o.MaxRequestSize = 3, 1000, 500 })
			status, header, body := request{header: map[string]string{"Content-Type": typeBatch}, body: tc.body}.send(t, url)
			require.Equal(t, http.StatusBadRequest, status)
			require.Equal(t, tc.wantText, body)
			require.True(t, strings.HasPrefix(header.Get("Content-Type"), "text/plain"))
			require.Empty(t, publisher.events)
		})
	}
}

func TestEventsOfABatchKeepTheirTraceAndGetThatOfTheRequest(t *testing.T) {
	t.Parallel()
	const own, ofRequest = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	publisher := &fakePublisher{}
	url, registry := serve(t, publisher)
	batch := batchOf(member("1", `,"traceparent":"`+own+`"`), member("2"), member("3", `,"b3traceid":"abc"`))
	batch.header["traceparent"] = ofRequest
	status, _, body := batch.send(t, url)
	require.Equal(t, http.StatusNoContent, status, body)
	require.Equal(t, []string{"1", "2", "3"}, publisher.ids())
	for i, want := range []string{own, ofRequest, ""} {
		require.Equal(t, want, publisher.events[i].Extension("traceparent"))
		require.NotEmpty(t, publisher.events[i].Time)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP eventing_epp_event_type_published_total Stored events by type and source; those beyond a number of both are other.
# TYPE eventing_epp_event_type_published_total counter
eventing_epp_event_type_published_total{code="204",event_source="other",event_type="other"} 0
eventing_epp_event_type_published_total{code="204",event_source="shop",event_type="order.received.v1"} 3
`), "eventing_epp_event_type_published_total"))
}

func of(name, source string) *cloudevent.Event { return &cloudevent.Event{Type: name, Source: source} }

func TestEventTypeSeriesAreBounded(t *testing.T) {
	t.Parallel()
	p := newPublished(2)
	for _, ev := range []*cloudevent.Event{
		of("\xff", "shop"), of(strings.Repeat("x", 257), "shop"), of("x", strings.Repeat("x", 257)),
		of("a", "shop"), of("a", "depot"), of("a", "shop"), of("b", "shop"), of("b", "shop"), of("a", "depot"),
	} {
		p.count(ev)
	}
	require.NoError(t, testutil.CollectAndCompare(p.events, strings.NewReader(`
# HELP eventing_epp_event_type_published_total Stored events by type and source; those beyond a number of both are other.
# TYPE eventing_epp_event_type_published_total counter
eventing_epp_event_type_published_total{code="204",event_source="depot",event_type="a"} 2
eventing_epp_event_type_published_total{code="204",event_source="shop",event_type="a"} 2
eventing_epp_event_type_published_total{code="204",event_source="other",event_type="other"} 5
`)))
}

func TestTypesAreCountedByManyAtATime(t *testing.T) {
	t.Parallel()
	p := newPublished(50)
	var publishers sync.WaitGroup
	for range 8 {
		publishers.Go(func() {
			for i := range 400 {
				p.count(of("t"+strconv.Itoa(i%100), "shop"))
			}
		})
	}
	publishers.Wait()
	series := make(chan prometheus.Metric, 1000)
	p.events.Collect(series)
	require.Len(t, series, 51)
	require.InDelta(t, 8*200, testutil.ToFloat64(p.rest), 0)
}

func TestATypeThatIsKnownCostsNoMemory(t *testing.T) {
	p := newPublished(2)
	ev := of("a", "shop")
	p.count(ev)
	require.Zero(t, testing.AllocsPerRun(100, func() { p.count(ev) }))
	others := of("b", strings.Repeat("x", 300))
	require.Zero(t, testing.AllocsPerRun(100, func() { p.count(others) }))
}
