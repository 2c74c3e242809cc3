package ingress

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// legacyPublisher records the events of legacy requests.
type legacyPublisher struct {
	fakePublisher

	oldTypes []string
}

func (f *legacyPublisher) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	err := f.Publish(ctx, ev)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.oldTypes = append(f.oldTypes, oldType)
	}
	return err
}

// PublishLegacy is not what tests of other endpoints want.
func (f *fakePublisher) PublishLegacy(context.Context, *cloudevent.Event, string) error {
	panic("not expected")
}

const (
	legacyURI = "/my-shop/v1/events"
	legacyID  = "a1b2c3d4-0000-4000-8000-00000000000f"
)

func legacyBody(change ...string) string {
	members := map[string]string{
		"event-type": `"order.created"`, "event-type-version": `"v1"`, "event-time": `"2026-01-02T03:04:05.500+01:00"`,
		"event-id": `"` + legacyID + `"`, "data": `{"b": 1.50,  "a":"<ü>"}`,
	}
	for i := 0; i < len(change); i += 2 {
		members[change[i]] = change[i+1]
	}
	var parts []string
	for name, value := range members {
		if value != "" {
			parts = append(parts, strconv.Quote(name)+":"+value)
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestALegacyEventIsStoredAsACloudEvent(t *testing.T) {
	t.Parallel()
	publisher := &legacyPublisher{}
	url, registry := serve(t, publisher)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	status, header, body := request{
		path: legacyURI, body: legacyBody() + "what follows is ignored", header: map[string]string{"traceparent": trace},
	}.send(t, url)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.JSONEq(t, `{"event-id":"`+legacyID+`","status":"","reason":""}`, body)
	require.True(t, strings.HasSuffix(body, "}\n"), "%q", body)

	ev := publisher.last(t)
	want := cloudevent.Event{
		ID: legacyID, Source: "my-shop", Type: "order.created.v1", Time: "2026-01-02T02:04:05.5Z", DataContentType: "application/json",
		Data: []byte(`{"b": 1.50,  "a":"<ü>"}`),
		Extensions: []cloudevent.Extension{
			{Name: "eventtypeversion", Value: "v1"},
			{Name: "traceparent", Value: trace},
		},
	}
	require.True(t, want.CheckJSON())
	require.Equal(t, want, ev)
	require.Equal(t, []string{"sap.kyma.custom.myshop.order.created.v1"}, publisher.oldTypes)

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP eventing_epp_requests_total Requests of publishers.
# TYPE eventing_epp_requests_total counter
eventing_epp_requests_total{code="200",method="POST",path="/{application}/v1/events"} 1
`+unused()), "eventing_epp_requests_total"))
}

// unused are the series of /publish that are there from the start.
func unused() string {
	var lines strings.Builder
	for _, code := range []string{"204", "400", "408", "429", "500", "502", "503", "504", "507"} {
		lines.WriteString(`eventing_epp_requests_total{code="` + code + `",method="POST",path="/publish"} 0` + "\n")
	}
	return lines.String()
}

func TestALegacyEventWithoutAnIDGetsOne(t *testing.T) {
	t.Parallel()
	publisher := &legacyPublisher{}
	url, _ := serve(t, publisher)
	status, _, body := request{path: legacyURI, body: legacyBody("event-id", "")}.send(t, url)
	require.Equal(t, http.StatusOK, status)
	var answer map[string]string
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.Equal(t, publisher.last(t).ID, answer["event-id"])
	require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, answer["event-id"])
}

func TestFieldsOfALegacyRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, body            string
		wantType, wantOldType string
		wantSource            string
	}{
		"unknown members":                 {body: legacyBody("source", `"x"`, "note", "[1]")},
		"an empty object as data":         {body: legacyBody("data", "{}")},
		"a number as data":                {body: legacyBody("data", "0")},
		"a blank text as data":            {body: legacyBody("data", `" "`)},
		"false as data":                   {body: legacyBody("data", "false")},
		"an id in capitals":               {body: legacyBody("event-id", `"A1B2C3D4-0000-4000-8000-00000000000F"`)},
		"a version that has one letter":   {body: legacyBody("event-type-version", `"-v."`), wantType: "-"},
		"a version with dots":             {body: legacyBody("event-type-version", `"1.0"`), wantType: "order.created.1.0", wantOldType: "sap.kyma.custom.myshop.order.created.1.0"},
		"a type of one segment":           {body: legacyBody("event-type", `"created"`), wantType: "created.v1", wantOldType: "sap.kyma.custom.myshop.created.v1"},
		"a type of many segments":         {body: legacyBody("event-type", `"Account-1.Root.Cre_ated"`), wantType: "Account-1.Root.Cre_ated.v1", wantOldType: "sap.kyma.custom.myshop.Account1Root.Created.v1"},
		"an application that has no name": {path: "/--/v1/events", body: legacyBody(), wantSource: "--", wantOldType: "-"},
		"an application with an escape":   {path: "/a%20b/v1/events", body: legacyBody(), wantSource: "a b", wantOldType: "sap.kyma.custom.ab.order.created.v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publisher := &legacyPublisher{}
			url, _ := serve(t, publisher)
			if tc.path == "" {
				tc.path, tc.wantSource = legacyURI, "my-shop"
			}
			status, _, body := request{path: tc.path, body: tc.body}.send(t, url)
			require.Equal(t, http.StatusOK, status, body)
			ev := publisher.last(t)
			require.Equal(t, tc.wantSource, ev.Source)
			switch tc.wantType {
			case "-":
				return
			case "":
				tc.wantType = "order.created.v1"
			}
			require.Equal(t, tc.wantType, ev.Type)
			switch tc.wantOldType {
			case "-":
				tc.wantOldType = ""
			case "":
				tc.wantOldType = "sap.kyma.custom.myshop.order.created.v1"
			}
			require.Equal(t, []string{tc.wantOldType}, publisher.oldTypes)
		})
	}
}

func TestALegacyRequestThatHoldsNoEventIsRefused(t *testing.T) {
	t.Parallel()
	const syntax = `{"status":400,"type":"bad_payload_syntax","message":"Bad payload syntax","moreInfo":"`
	missing := func(field string) string {
		return `{"status":400,"type":"validation_violation","message":"Missing field","details":[` +
			`{"field":"` + field + `","type":"missing_field","message":"Missing field"}]}` + "\n"
	}
	invalid := func(field string) string {
		return `{"status":400,"type":"validation_violation","message":"Invalid field","details":[` +
			`{"field":"` + field + `","type":"invalid_field","message":"Invalid field"}]}` + "\n"
	}
	for name, tc := range map[string]struct {
		path, body string
		want       string
		wantStatus int
	}{
		"no body":              {want: syntax + `the body is empty"}` + "\n"},
		"blanks only":          {body: " \n", want: syntax + `the body is empty"}` + "\n"},
		"half an object":       {body: `{"event-type":`, want: syntax + `unexpected EOF"}` + "\n"},
		"no JSON":              {body: "hello", want: syntax + `invalid character 'h' looking for beginning of value"}` + "\n"},
		"an array":             {body: "[]", want: syntax},
		"a member that is odd": {body: legacyBody("event-type", "1"), want: syntax},
		"nothing":              {body: "null", want: missing("event-type")},
		"no type":              {body: legacyBody("event-type", ""), want: missing("event-type")},
		"an empty type":        {body: legacyBody("event-type", `""`, "data", ""), want: missing("event-type")},
		"no version":           {body: legacyBody("event-type-version", ""), want: missing("event-type-version")},
		"an odd version":       {body: legacyBody("event-type-version", `"-."`), want: invalid("event-type-version")},
		"no time":              {body: legacyBody("event-time", ""), want: missing("event-time")},
		"an odd time":          {body: legacyBody("event-time", `"today"`), want: invalid("event-time")},
		"an odd id":            {body: legacyBody("event-id", `"1"`), want: invalid("event-id")},
		"an id without hyphen": {body: legacyBody("event-id", `"a1b2c3d4-0000-4000-8000000000000000f0"`), want: invalid("event-id")},
		"an id of letters":     {body: legacyBody("event-id", `"g1b2c3d4-0000-4000-8000-00000000000f"`), want: invalid("event-id")},
		"no data":              {body: legacyBody("data", ""), want: missing("data")},
		"data that is null":    {body: legacyBody("data", "null"), want: missing("data")},
		"an empty text":        {body: legacyBody("data", `""`), want: missing("data")},
		"a source that is no URI": {
			path: "/%00/v1/events", body: legacyBody(), want: syntax + `source: MUST be a URI-reference"}` + "\n",
		},
		"a time that no calendar has": {
			body: legacyBody("event-time", `"9999-12-31T23:59:59-01:00"`), want: syntax + `time: MUST be a RFC 3339 timestamp"}` + "\n",
		},
		"a body that is too large": {
			body: legacyBody("data", `"`+strings.Repeat("x", 65536)+`"`), wantStatus: http.StatusRequestEntityTooLarge,
			want: `{"status":413,"type":"request_body_too_large","message":"Request body too large","moreInfo":"http: request body too large"}` + "\n",
		},
		"a body that is too large behind its event": {
			body: legacyBody() + strings.Repeat(" ", 65536), wantStatus: http.StatusRequestEntityTooLarge,
			want: `{"status":413,"type":"request_body_too_large"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			publisher := &legacyPublisher{}
			url, _ := serve(t, publisher)
			if tc.path == "" {
				tc.path = legacyURI
			}
			if tc.wantStatus == 0 {
				tc.wantStatus = http.StatusBadRequest
			}
			status, header, body := request{path: tc.path, body: tc.body}.send(t, url)
			require.Equal(t, tc.wantStatus, status, body)
			require.Equal(t, "application/json", header.Get("Content-Type"))
			require.True(t, strings.HasPrefix(body, tc.want), body)
			require.True(t, strings.HasSuffix(body, "}\n"), body)
			require.Empty(t, publisher.events)
		})
	}
}

func TestALegacyPublisherGetsTheReasonOfAFailure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err            error
		wantStatus     int
		want           string
		wantRetryAfter bool
	}{
		"a type that has no subject": {
			&failure.InvalidEventError{Reason: "event type cannot"}, 400,
			`{"status":400,"type":"bad_payload_syntax","message":"Bad payload syntax","moreInfo":"event type cannot"}`, false,
		},
		"too large for the server": {
			failure.ErrTooLarge, 413,
			`{"status":413,"type":"request_body_too_large","message":"Request body too large","moreInfo":"event is larger than the stream takes"}`, false,
		},
		"too many at a time": {failure.ErrBusy, 429, `{"status":429,"message":"too many events wait to be stored"}`, true},
		"no connection":      {failure.ErrNotConnected, 502, `{"status":502,"message":"no connection to NATS JetStream server"}`, true},
		"no stream":          {failure.ErrNoStream, 504, `{"status":504,"message":"cannot send to stream"}`, true},
		"a full stream":      {failure.ErrStorageFull, 507, `{"status":507,"message":"insufficient resources on target stream"}`, true},
		"anything else":      {context.Canceled, 500, `{"status":500,"message":"internal error on backend"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := serve(t, &legacyPublisher{fakePublisher: fakePublisher{err: tc.err}})
			status, header, body := request{path: legacyURI, body: legacyBody()}.send(t, url)
			require.Equal(t, tc.wantStatus, status)
			require.Equal(t, "application/json", header.Get("Content-Type"))
			require.Equal(t, tc.want+"\n", body)
			require.Equal(t, tc.wantRetryAfter, header.Get("Retry-After") != "")
		})
	}
}

func TestOtherMethodsAndPathsAreNoLegacyEndpoint(t *testing.T) {
	t.Parallel()
	publisher := &legacyPublisher{}
	url, registry := serve(t, publisher)
	for path, want := range map[string]int{
		"/shop/v1/events/": http.StatusNotFound, "/shop/v2/events": http.StatusNotFound, "/shop/eu/v1/events": http.StatusNotFound,
		"/v1/events": http.StatusNotFound, "/shop/v1/events/subscribed": http.StatusMethodNotAllowed,
	} {
		status, _, _ := request{path: path, body: legacyBody()}.send(t, url)
		require.Equal(t, want, status, path)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, "BREW"} {
		status, _, _ := request{method: method, path: legacyURI, body: legacyBody()}.send(t, url)
		require.Equal(t, http.StatusMethodNotAllowed, status)
	}
	require.Empty(t, publisher.events)
	for _, label := range paths(t, registry) {
		require.Contains(t, []string{"other", "/publish"}, label)
	}
}

// paths are the labels of that name.
func paths(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	var found []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "path" {
					found = append(found, label.GetValue())
				}
			}
		}
	}
	return found
}

// FuzzLegacyRequest: whatever is sent from wherever, the answer is one of the contract, and an event that is stored can
// be written, read and sent.
func FuzzLegacyRequest(f *testing.F) {
	f.Add("shop", []byte(legacyBody()))
	f.Add("my-shop/eu", []byte(legacyBody("event-id", "", "data", `"\ud800"`)))
	f.Add("\xff", []byte(legacyBody("event-type", `"a..\u0000b"`, "event-type-version", `"ü1"`)))
	f.Add("..", []byte(`{"EVENT-TYPE":"a","event-type-version":"1","event-time":"2026-01-02T3:04:05,5+24:00","data":[[]]}x`))
	f.Add("a:b", []byte(`[`))
	f.Fuzz(func(t *testing.T, application string, body []byte) {
		publisher := &legacyPublisher{}
		handler := New(Deps{
			Publisher: publisher, Connected: func() bool { return true }, Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
		}, DefaultOptions())
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(
			t.Context(), http.MethodPost, "/"+url.PathEscape(application)+"/v1/events", strings.NewReader(string(body)),
		))
		if answer.Code/100 == 3 || answer.Code == http.StatusNotFound {
			require.Contains(t, []string{"", ".", "..", "/"}, application, "no other name is lost")
			require.Empty(t, publisher.events)
			return
		}
		var members map[string]any
		require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &members), "%d %q", answer.Code, answer.Body)
		if answer.Code != http.StatusOK {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge}, answer.Code)
			require.InDelta(t, answer.Code, members["status"], 0)
			require.NotEmpty(t, members["message"])
			require.Empty(t, publisher.events)
			return
		}
		ev := publisher.last(t)
		require.Equal(t, ev.ID, members["event-id"])
		require.Equal(t, application, ev.Source)
		require.NoError(t, ev.Validate())
		require.True(t, json.Valid(ev.Data), "%q", ev.Data)
		require.Regexp(t, `^$|^sap\.kyma\.custom(\.[^.\s*>/\\]+){3,}$`, publisher.oldTypes[0])
		if ev.CheckText() != nil {
			return // the publisher refuses it
		}
		written := ev.AppendStructured(nil)
		again, err := cloudevent.FromStructured(written)
		require.NoError(t, err, "%q", written)
		require.Equal(t, string(ev.Data), string(again.Data))
		require.Equal(t, ev.Time, again.Time)
	})
}
