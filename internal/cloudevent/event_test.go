package cloudevent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
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
		"names of version 0.3 in 1.0": {
			body: `{"specversion":"1.0","id":"1","source":"s","type":"t","schemaurl":"x","datacontentencoding":"base64","data":"AAH/"}`,
			want: Event{
				ID: "1", Source: "s", Type: "t", Data: []byte(`"AAH/"`),
				Extensions: []Extension{{"datacontentencoding", "base64", String}, {"schemaurl", "x", String}},
			},
		},
		"names that come again": {
			body: `{"specversion":"1.0","id":"0","x":"1","id":"1","A":"2","source":"s","type":"t","x":"3","a":"4"}`,
			want: Event{ID: "1", Source: "s", Type: "t", Extensions: []Extension{{"a", "4", String}, {"x", "3", String}}},
		},
		"escapes": {
			body: `{"\u0069d":"\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00\ud83dx\udead","specversion":"1.0","source":"s","type":"t"}`,
			want: Event{ID: "\"\\/\b\f\n\r\tä😀\ufffdx\ufffd", Source: "s", Type: "t"},
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

func TestInvalidEventsAreRefused(t *testing.T) {
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
		"an escape that is none": `{"specversion":"1.0","x":"\q"}`,
		"a number that is none":  `{"specversion":"1.0","x":01}`,
		"a name in capitals":     `{"specversion":"1.0","ID":"1"}`,
		"an unknown encoding":    `{"specversion":"0.3","datacontentencoding":"gzip","data":""}`,
		"data that are no JSON":  `{"specversion":"1.0","data":{"a":}}`,
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

func TestTextThatJSONCannotCarryIsNamed(t *testing.T) {
	t.Parallel()
	require.EqualError(t, (&Event{ID: "\xff"}).CheckText(), "id: MUST be valid UTF-8")
	require.EqualError(t, (&Event{Extensions: []Extension{{Name: "x", Value: "\xff"}}}).CheckText(), "x: MUST be valid UTF-8")
	require.NoError(t, (&Event{ID: "ü", Data: []byte("\xff")}).CheckText())
}

func TestHeadersThatNoSinkCouldReadAreEncoded(t *testing.T) {
	t.Parallel()
	header := http.Header{}
	e := Event{ID: "a\r\nb\x7f\tü%", Extensions: []Extension{{Name: "1x", Value: ""}, {Name: "traceparent", Value: "00"}}}
	e.SetHeader(header)
	require.Equal(t, http.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"a%0D%0Ab%7F\tü%"}, "Ce-Traceparent": {"00"}}, header)
}

func TestBinaryEventsOfVersion03AreLifted(t *testing.T) {
	t.Parallel()
	header := http.Header{"Ce-Specversion": {"0.3"}, "Ce-Schemaurl": {"https://x"}, "Ce-Datacontentencoding": {"base64"}}
	e, err := FromBinary(header, []byte("AAH/"))
	require.NoError(t, err)
	require.Equal(t, Event{DataSchema: "https://x", Data: []byte{0, 1, 255}, Base64: true}, e)
	_, err = FromBinary(header, []byte("?"))
	require.Error(t, err)
	header["Ce-Specversion"] = []string{"1.0"}
	e, err = FromBinary(header, []byte("AAH/"))
	require.NoError(t, err)
	require.Equal(t, Event{Data: []byte("AAH/"), Extensions: []Extension{{"datacontentencoding", "base64", String}, {"schemaurl", "https://x", String}}}, e)
	for _, name := range []string{"Ce-Data", "Ce-A_b", "Ce-"} {
		_, err = FromBinary(http.Header{"Ce-Specversion": {"1.0"}, name: {"x"}}, nil)
		require.Equal(t, name != "Ce-", err != nil, name)
	}
}

func TestBatchesAreSplit(t *testing.T) {
	t.Parallel()
	events, err := SplitBatch([]byte(" [ {\"a\":[1]} , 2,\"]\" ]\n"), 3)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte(`{"a":[1]}`), []byte("2"), []byte(`"]"`)}, events)
	events, err = SplitBatch([]byte("[]"), 3)
	require.NoError(t, err)
	require.Empty(t, events)
	_, err = SplitBatch([]byte("[1,2,3,4]"), 3)
	require.ErrorIs(t, err, ErrLargeBatch)
	for _, body := range []string{"", "{}", "[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1]]", "[] x", "[1] x"} {
		_, err := SplitBatch([]byte(body), 3)
		require.Error(t, err, body)
	}
}

func TestAnEventWithinTheBoundsIsRead(t *testing.T) {
	t.Parallel()
	bounds := Bounds{Extensions: 3, Attributes: 40}
	const many, large = "the event has more than 3 extensions", "the event has more than 40 bytes of attributes"
	for name, tc := range map[string]struct {
		attributes map[string]string // beside specversion
		want       string
	}{
		"as many extensions as may be": {map[string]string{"id": "1", "a": "", "b": "", "c": ""}, ""},
		"one extension more":           {map[string]string{"id": "1", "a": "", "b": "", "c": "", "d": ""}, many},
		"names of version 0.3":         {map[string]string{"id": "1", "a": "", "b": "", "schemaurl": "", "datacontentencoding": ""}, many},
		"as many bytes as may be":      {map[string]string{"id": strings.Repeat("x", 30), "abcde": "12345"}, ""},
		"one byte more":                {map[string]string{"id": strings.Repeat("x", 31), "abcde": "12345"}, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := map[string][]string{"Ce-Specversion": {"1.0"}}
			var structured strings.Builder
			structured.WriteString(`{"specversion":"1.0"`)
			for name, value := range tc.attributes {
				header["ce-"+name] = []string{value}
				fmt.Fprintf(&structured, ",%q:%q", name, value)
			}
			structured.WriteString("}")
			for mode, read := range map[string]func() (Event, error){
				"binary":     func() (Event, error) { return bounds.FromBinary(header, nil) },
				"structured": func() (Event, error) { return bounds.FromStructured([]byte(structured.String())) },
			} {
				_, err := read()
				if tc.want == "" {
					require.NoError(t, err, mode)
				} else {
					require.EqualError(t, err, tc.want, mode)
				}
			}
			_, err := FromStructured([]byte(structured.String()))
			require.NoError(t, err, "what is stored is read")
			_, err = FromBinary(header, nil)
			require.NoError(t, err, "what is stored is read")
		})
	}
}

func TestExtensionsThatAreWrittenTwiceCount(t *testing.T) {
	t.Parallel()
	_, err := Bounds{Extensions: 3}.FromStructured([]byte(`{"specversion":"1.0","a":1,"a":2,"a":3,"a":4}`))
	require.EqualError(t, err, "the event has more than 3 extensions")
}

func TestDataWithoutATypeAreTheSameForTheSDKFromJSONAndFromHeaders(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ members, contentType string }{
		"an object":                     {`"data":{"a":[1,null]}`, "application/json"},
		"a string":                      {`"data":"a"`, "application/json"},
		"a number":                      {`"data":7`, "application/json"},
		"a truth value":                 {`"data":false`, "application/json"},
		"null":                          {`"data":null`, "application/json"},
		"bytes":                         {`"data_base64":"AAH/"`, ""},
		"bytes that happen to be JSON":  {`"data_base64":"Nw=="`, ""},
		"nothing":                       {`"subject":"a"`, ""},
		"a string that has a type":      {`"data":"7","datacontenttype":"text/plain"`, "text/plain"},
		"an object that has a type too": {`"data":{"a":1},"datacontenttype":"application/json"`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t",` + tc.members + `}`)
			e, err := FromStructured(body)
			require.NoError(t, err)
			header := http.Header{}
			e.SetHeader(header)
			require.Equal(t, tc.contentType, header.Get("Content-Type"))

			var want event.Event
			require.NoError(t, json.Unmarshal(body, &want))
			got, err := binding.ToEvent(t.Context(), cehttp.NewMessage(header, io.NopCloser(bytes.NewReader(e.Data))))
			require.NoError(t, err)
			require.Equal(t, string(want.Data()), string(got.Data()))

			var again event.Event
			require.NoError(t, json.Unmarshal(e.AppendStructured(nil), &again))
			require.Equal(t, string(want.Data()), string(again.Data()))
			require.Equal(t, want.DataContentType(), again.DataContentType(), "JSON stays as it was written")
		})
	}
}

func TestABodyWithoutATypeThatIsNoJSONHasNone(t *testing.T) {
	t.Parallel()
	e, err := FromBinary(http.Header{"Ce-Specversion": {"1.0"}}, []byte("hello"))
	require.NoError(t, err)
	header := http.Header{}
	e.SetHeader(header)
	require.NotContains(t, header, "Content-Type")
}

func TestDataThatWereFoundToBeJSONAreScannedAgainOnceTheyAreReplaced(t *testing.T) {
	t.Parallel()
	e := Event{Data: []byte(`{"a":1}`)}
	require.True(t, e.CheckJSON())
	require.True(t, e.CheckJSON())
	e.Data = []byte(`{"a":1`)
	require.False(t, e.CheckJSON())
	e.Data = nil
	require.False(t, e.CheckJSON())
}
