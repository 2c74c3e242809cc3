package event

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

type sent struct {
	header http.Header
	body   string
}

// bridge responds to each request with the next response, and to further ones with the last.
type bridge struct {
	*httptest.Server

	mu   sync.Mutex
	sent []sent
}

func startBridge(t *testing.T, answers ...http.HandlerFunc) *bridge {
	t.Helper()
	b := &bridge{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		n := len(b.sent)
		b.sent = append(b.sent, sent{r.Header, string(body)})
		b.mu.Unlock()
		answers[min(n, len(answers)-1)](w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func publish(t *testing.T, b *bridge, in Input) ([]Result, []sent) {
	t.Helper()
	in.HasContent = true
	batch, err := Build(in)
	require.NoError(t, err)
	results, err := Sender{URL: b.URL, Client: b.Client(), RetryFor: time.Minute}.Send(t.Context(), batch)
	require.NoError(t, err)
	return results, b.sent
}

// read returns the data plane's decoding of a request.
func read(t *testing.T, s sent) []cloudevent.Event {
	t.Helper()
	if cloudevent.IsBinary(s.header) {
		ev, err := cloudevent.FromBinary(s.header, []byte(s.body))
		require.NoError(t, err)
		return []cloudevent.Event{ev}
	}
	require.Equal(t, batched, s.header.Get("Content-Type"))
	parts, err := cloudevent.SplitBatch([]byte(s.body), 100)
	require.NoError(t, err)
	var events []cloudevent.Event
	for _, part := range parts {
		ev, err := cloudevent.FromStructured(part)
		require.NoError(t, err)
		events = append(events, ev)
	}
	return events
}

func TestOneEventGoesInBinaryModeUnlessHeadersWouldChangeIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in     Input
		binary bool
	}{
		"flags":                         {Input{Subject: "an order"}, true},
		"data with space around them":   {Input{Content: []byte(" [1, 2]\n")}, true},
		"bytes":                         {Input{Content: []byte("\xff\x00"), ContentType: `image/png; a="b"`}, true},
		"a text beyond ASCII":           {Input{Subject: "ä", Content: []byte("ä\r")}, false},
		"a subject of two lines":        {Input{Subject: "a\r\nCe-Id: 2", Content: []byte(` {"a": 1.0} `)}, false},
		"a percent sign":                {Input{Subject: "a%20b"}, false},
		"a quotation mark":              {Input{Subject: `"a"`}, false},
		"space at an end":               {Input{Subject: " a", Content: []byte("\xff")}, false},
		"many bytes":                    {Input{Extensions: map[string]string{"a": strings.Repeat("a", maxHeaders)}}, false},
		"an event as data":              {Input{Content: []byte(`{"id": 1}`), ContentType: "Application/CloudEvents+JSON"}, false},
		"a type of data in two scripts": {Input{Content: []byte("a"), ContentType: `text/plain; a="ä"`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBridge(t, answer(http.StatusNoContent, ""))
			tc.in.Type, tc.in.Source, tc.in.ID = "t", "/a", "1"
			if tc.in.Content == nil {
				tc.in.Content = []byte(`{"b": 12345678901234567890, "a": "<"}`)
			}
			results, requests := publish(t, b, tc.in)
			require.Equal(t, []Result{{ID: "1", Source: "/a", Type: "t", Status: 204}}, results)
			require.Len(t, requests, 1)
			require.Equal(t, tc.binary, cloudevent.IsBinary(requests[0].header))
			got := read(t, requests[0])
			require.Len(t, got, 1)
			require.Equal(t, string(tc.in.Content), string(got[0].Data))
			require.Equal(t, tc.in.Subject, got[0].Subject)
			require.Equal(t, tc.in.Extensions["a"], got[0].Extension("a"))
			require.Equal(t, []string{"1", "/a", "t"}, []string{got[0].ID, got[0].Source, got[0].Type})
		})
	}
}

func TestOneWholeEventKeepsTheTypesThatHeadersDoNotHave(t *testing.T) {
	t.Parallel()
	for _, members := range []string{`"tries":3`, `"urgent":true`, `"data_base64":"Nw=="`} {
		b := startBridge(t, answer(http.StatusNoContent, ""))
		_, requests := publish(t, b, Input{Content: []byte(`{"type":"t","source":"s","id":"1",` + members + `}`)})
		require.Contains(t, requests[0].body, members)
	}
}

func TestABatchIsReadByTheDataPlaneAndTheSDKAsItWasWritten(t *testing.T) {
	t.Parallel()
	const object = `{ "z": 12345678901234567890,  "a": "<\u00e4>" }`
	b := startBridge(t, answer(http.StatusNoContent, ""))
	_, requests := publish(t, b, Input{Source: "ä b", Content: []byte(`[
		{"type":"t","id":"1","data":` + object + `},
		{"type":"t","id":"2","data":{"a": 1},"datacontenttype":"application/geo+json"},
		{"type":"t","id":"3","data_base64":"AAH/"},
		{"type":"t","id":"4","data":"a\/b","datacontenttype":"text/plain"},
		{"type":"t","id":"5","data":"` + "\xff" + `"}]`)})
	want := []string{object, `{"a": 1}`, "\x00\x01\xff", "a/b", "\"\xff\""}
	for i, ev := range read(t, requests[0]) {
		require.Equal(t, want[i], string(ev.Data))
		require.Equal(t, "ä b", ev.Source)
	}
	var events []sdk.Event
	require.NoError(t, json.Unmarshal([]byte(requests[0].body), &events))
	for i, ev := range events {
		require.Equal(t, want[i], string(ev.Data()))
	}
}

func TestEventIsSentAgainUnchangedWithItsID(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"in binary mode": `{"type":"t","source":"s","data":{"a": 1.0}}`,
		"in a batch":     `[{"type":"t","source":"s","data":{"a": 1.0}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBridge(t, answer(http.StatusServiceUnavailable, "no"), answer(http.StatusTooManyRequests, "full"), answer(http.StatusNoContent, ""))
			results, requests := publish(t, b, Input{Content: []byte(content)})
			require.True(t, results[0].Stored())
			require.Len(t, requests, 3)
			require.Equal(t, requests[0], requests[1])
			require.Equal(t, requests[0], requests[2])
			require.Equal(t, results[0].ID, read(t, requests[2])[0].ID)
		})
	}
}

func TestOnlyTransientFailuresOfABatchAreSentAgain(t *testing.T) {
	t.Parallel()
	b := startBridge(t,
		answer(http.StatusServiceUnavailable, `[{"status":204},{"status":400,"reason":"bad"},{"status":503,"reason":"busy"}]`),
		answer(http.StatusNoContent, ""))
	results, requests := publish(t, b, Input{Source: "s", Content: []byte(`[{"type":"t","id":"1"},{"type":"t","id":"2"},{"type":"t","id":"3"}]`)})
	require.Equal(t, []Result{
		{ID: "1", Source: "s", Type: "t", Status: 204},
		{ID: "2", Source: "s", Type: "t", Status: 400, Reason: "bad"},
		{ID: "3", Source: "s", Type: "t", Status: 204},
	}, results)
	require.Len(t, requests, 2)
	again := read(t, requests[1])
	require.Len(t, again, 1)
	require.Equal(t, "3", again[0].ID)
}

func TestMissingBridgeIsUnreachable(t *testing.T) {
	t.Parallel()
	b := startBridge(t, answer(http.StatusNoContent, ""))
	b.Close()
	batch, err := Build(Input{Type: "t", Source: "s"})
	require.NoError(t, err)
	_, err = Sender{URL: b.URL, Client: loopback.Default}.Send(t.Context(), batch)
	require.ErrorContains(t, err, "publish: the bridge did not respond: ")
	require.Equal(t, exit.Unreachable, exit.CodeOf(err))
}

func TestSDKDecodesTheSameEventInBinaryMode(t *testing.T) {
	t.Parallel()
	b := startBridge(t, answer(http.StatusNoContent, ""))
	_, requests := publish(t, b, Input{Content: []byte(`{"type":"t","source":"s","id":"1","time":"2026-01-02T03:04:05.678Z","tenant":"a","data":{"b": 1.0}}`)})
	got, err := cehttp.NewEventFromHTTPRequest(&http.Request{Header: requests[0].header, Body: io.NopCloser(strings.NewReader(requests[0].body))})
	require.NoError(t, err)
	require.Equal(t, `{"b": 1.0}`, string(got.Data()))
	require.Equal(t, "application/json", got.DataContentType())
	require.Equal(t, map[string]any{"tenant": "a"}, got.Extensions())
	require.Equal(t, 678*time.Millisecond, time.Duration(got.Time().Nanosecond()))
}
