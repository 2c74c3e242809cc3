package dev

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

func TestEventsAreReadAloneAndInArrays(t *testing.T) {
	t.Parallel()
	const one = `{"specversion":"1.0","id":"1","source":"shop","type":"order.received"}`
	for name, tc := range map[string]struct {
		content string
		want    int
		err     string
	}{
		"one":                     {one, 1, ""},
		"several":                 {" [" + one + ", " + one + "]", 2, ""},
		"none":                    {"[]", 0, "no events"},
		"malformed JSON":          {"id: 1", 0, "event 1 is not a CloudEvent in JSON"},
		"a truncated array":       {"[" + one, 0, "JSON array"},
		"an event without a type": {`[` + one + `, {"specversion":"1.0","id":"1","source":"shop"}]`, 0, "event 2 is not a CloudEvent in JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := parseEvents([]byte(tc.content))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, events, tc.want)
		})
	}
}

func TestRepublishedEventHasANewIDAndTheSameData(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ id, data, want string }{
		"an id without data":         {"1", ``, "1-x"},
		"data with another id":       {"1", `{"id":"7"}`, "1-x"},
		"matching ids":               {"7.received", `{"id":"7"}`, "7-x.received"},
		"an id that is a number":     {"7.received", `{"id":7}`, "7.received-x"},
		"data that is not an object": {"1", `[1]`, "1-x"},
	} {
		before := cloudevent.Event{ID: tc.id, Data: []byte(tc.data)}
		after := withID(before, "-x")
		require.Equal(t, tc.want, after.ID, name)
		require.Equal(t, tc.data, string(after.Data), name)
		require.Equal(t, tc.id, before.ID, name)
	}
}

func TestDataArePublishedByteForByte(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"markup, numbers and white space": `{ "id":"1",  "html": "<b>&amp;</b>", "n": 1.0,` + "\n\t" + `"big": 12345678901234567890, "b": 1, "a": "\u00e4" }`,
		"the same name twice":             `{"a":1,"a":2}`,
		"a number":                        `1.50`,
		"text":                            `" <text> "`,
	} {
		events, err := parseEvents([]byte(`[ {"specversion":"1.0","id":"1.a","source":"shop","type":"order.received","data": ` + data + ` } ]`))
		require.NoError(t, err, name)
		got := make(chan string, 2)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			ev, _ := cloudevent.FromStructured(body)
			got <- string(ev.Data)
			w.WriteHeader(http.StatusNoContent)
		}))
		require.NoError(t, newPublisher(server.URL).publish(t.Context(), append(events, withID(events[0], "-x"))))
		server.Close()
		require.Equal(t, data, <-got, name)
		require.Equal(t, data, <-got, name)
	}
}
