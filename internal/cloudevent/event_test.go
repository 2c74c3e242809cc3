package cloudevent

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
)

func TestStructuredEventsAreRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want Event
	}{
		"the least": {
			body: `{"specversion":"1.0","id":"1","source":"s","type":"t"}`, want: Event{ID: "1", Source: "s", Type: "t"},
		},
		"all attributes, with space around": {
			body: " {\n\"specversion\" : \"1.0\" ,\t\"id\":\"\\u0041\\n\", \"source\":\"s\",\"type\":\"t\",\"subject\":\"ü\"," +
				"\"time\":\"2026-01-01T00:00:00.100Z\",\"dataschema\":\"https://x\",\"datacontenttype\":\"application/json\"," +
				"\"b\":true,\"a\":-7,\"c\":\"x\",\"d\":1.5,\"none\":null, \"data\": {\"a\" : [1e400,\"}\\\"\"]} }\n",
			want: Event{
				ID: "A\n", Source: "s", Type: "t", Subject: "ü", Time: "2026-01-01T00:00:00.100Z", DataSchema: "https://x",
				DataContentType: "application/json", Data: []byte(`{"a" : [1e400,"}\""]}`),
				Extensions: []Extension{{"a", "-7", Integer}, {"b", "true", Bool}, {"c", "x", String}, {"d", "1.5", String}},
			},
		},
		"text": {
			body: `{"specversion":"1.0","id":"1","source":"s","type":"t","data":"a \"b\"","datacontenttype":"text/plain"}`,
			want: Event{ID: "1", Source: "s", Type: "t", DataContentType: "text/plain", Data: []byte(`a "b"`)},
		},
		"a JSON string": {
			body: `{"specversion":"1.0","id":"1","source":"s","type":"t","data":"a"}`,
			want: Event{ID: "1", Source: "s", Type: "t", Data: []byte(`"a"`)},
		},
		"base64": {
			body: `{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"AAH/"}`,
			want: Event{ID: "1", Source: "s", Type: "t", Data: []byte{0, 1, 255}, Base64: true},
		},
		"version 0.3": {
			body: `{"specversion":"0.3","id":"1","source":"s","type":"t","schemaurl":"https://x","datacontentencoding":"base64","data":"AAH/"}`,
			want: Event{ID: "1", Source: "s", Type: "t", DataSchema: "https://x", Data: []byte{0, 1, 255}, Base64: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := FromStructured([]byte(tc.body))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.NoError(t, got.Validate())
		})
	}
}

func TestWhatIsNoEventIsRefused(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing":                ``,
		"no object":              `["specversion"]`,
		"no version":             `{"id":"1"}`,
		"an unknown version":     `{"specversion":"2.0","id":"1"}`,
		"an end that is missing": `{"specversion":"1.0","id":"1"`,
		"something after it":     `{"specversion":"1.0"} x`,
		"a value that is none":   `{"specversion":"1.0","id":x}`,
		"a number as id":         `{"specversion":"1.0","id":1}`,
		"an object as extension": `{"specversion":"1.0","x":{}}`,
		"a name that is none":    `{"specversion":"1.0","x y":"1"}`,
		"base64 that is none":    `{"specversion":"1.0","data_base64":"?"}`,
		"an open string":         `{"specversion":"1.0","x":"\`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromStructured([]byte(body))
			require.Error(t, err)
		})
	}
}

func TestHeadersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	sent := Event{
		ID: "1", Source: "shop", Type: "order.v1", Subject: "ü", Time: "2026-01-01T00:00:00Z", DataContentType: "text/plain",
		DataSchema: "https://x", Data: []byte("hello"), Extensions: []Extension{{Name: "originaltype", Value: "a"}, {Name: "x1", Value: "b"}},
	}
	header := http.Header{}
	sent.SetHeader(header)
	require.Equal(t, "1.0", header.Get("Ce-Specversion"))
	require.True(t, IsBinary(header))
	got, err := FromBinary(header, sent.Data)
	require.NoError(t, err)
	require.Equal(t, sent, got)
	_, err = FromBinary(http.Header{"Ce-Specversion": {"9"}}, nil)
	require.Error(t, err)
	require.False(t, IsBinary(http.Header{"Content-Type": {"text/plain"}}))
}

func TestEveryFaultOfAnEventIsNamed(t *testing.T) {
	t.Parallel()
	e := Event{ID: " ", Source: "s%ourc%e", Subject: " ", Time: "yesterday", DataContentType: "/", DataSchema: "relative"}
	err := e.Validate()
	require.EqualError(t, err, strings.Join([]string{
		"datacontenttype: MUST be a media type", "dataschema: MUST be a URI", "id: MUST be a non-empty string",
		"source: MUST be a URI-reference", "subject: MUST be a non-empty string", "time: MUST be a RFC 3339 timestamp",
		"type: MUST be a non-empty string",
	}, "\n"))
}

func TestExtensionsAreKeptInOrder(t *testing.T) {
	t.Parallel()
	var e Event
	for _, name := range []string{"c", "a", "b", "a"} {
		e.SetExtension(name, name+"!")
	}
	require.Equal(t, []Extension{{Name: "a", Value: "a!"}, {Name: "b", Value: "b!"}, {Name: "c", Value: "c!"}}, e.Extensions)
	e.DeleteExtension("b")
	e.DeleteExtension("b")
	value, ok := e.Attribute("b")
	require.False(t, ok)
	require.Empty(t, value)
	require.Equal(t, "c!", e.Extension("c"))
}

// FuzzFromStructured: no bytes make it panic, what it reads it writes as the same event, and what encoding/json and the
// SDK take for an event is read alike.
func FuzzFromStructured(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","x":1,"y":false,"data":{"a":[1,"}"]}}`))
	f.Add([]byte(`{"specversion":"1.0","id":"\u00e4","source":"s","type":"t","datacontenttype":"text/plain","data":"\u2028"}`))
	f.Add([]byte(`{"specversion":"0.3","id":"1","source":"s","type":"t","datacontentencoding":"base64","data":"AAH/"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"AAH/","datacontenttype":"image/png"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := FromStructured(body)
		if err != nil || !json.Valid(body) || e.Validate() != nil {
			return
		}
		written := e.AppendStructured(nil)
		require.True(t, json.Valid(written), "%q", written)
		again, err := FromStructured(written)
		require.NoError(t, err)
		require.Equal(t, string(e.Data), string(again.Data))
		e.Data, again.Data, e.Base64, again.Base64 = nil, nil, false, false
		require.Equal(t, e, again)

		header := http.Header{}
		e.SetHeader(header)
		for _, values := range header {
			require.False(t, strings.ContainsFunc(values[0], isControl), "%q cannot be sent", values[0])
		}
		compareWithSDK(t, body, e)
	})
}

// compareWithSDK skips what makes the SDK panic or give up: it reads fewer numbers, for example.
func compareWithSDK(t *testing.T, body []byte, e Event) {
	t.Helper()
	var judge event.Event
	ok := func() (ok bool) {
		defer func() { ok = recover() == nil && ok }()
		return json.Unmarshal(body, &judge) == nil && judge.Context != nil && judge.Validate() == nil
	}()
	if !ok || !utf8.Valid(body) || strings.Count(string(body), `"id"`) != 1 || strings.Contains(string(body), `\u`) {
		return
	}
	require.Equal(t, judge.ID(), e.ID)
	require.Equal(t, judge.Type(), e.Type)
}
