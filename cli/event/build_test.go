package event

import (
	"strings"
	"testing"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

func whole(t *testing.T, text string, in Input) sdk.Event {
	t.Helper()
	in.HasContent, in.Content = true, []byte(text)
	batch, err := Build(in)
	require.NoError(t, err)
	require.Len(t, batch.Events, 1)
	return batch.Events[0]
}

func TestDataOfAWholeEventAreUnchanged(t *testing.T) {
	t.Parallel()
	const object = `{ "z": 12345678901234567890.10,  "a": "<\u00e4\/>", "a": 1e400 }`
	for name, tc := range map[string]struct{ members, data, contentType string }{
		"an object":                     {`"data": ` + object + ` `, object, "application/json"},
		"an object before the type":     {`"data":` + object + `,"datacontenttype":"application/json"`, object, "application/json"},
		"an object of a type of JSON":   {`"data":` + object + `,"datacontenttype":"application/geo+json"`, object, "application/geo+json"},
		"a string":                      {`"data": "a\/<"`, `"a\/<"`, "application/json"},
		"a number":                      {`"data": 12345678901234567890`, "12345678901234567890", "application/json"},
		"null":                          {`"data": null`, "null", "application/json"},
		"a text":                        {`"data":"\u00e4\/<","datacontenttype":"text/plain"`, "ä/<", "text/plain"},
		"no text":                       {`"data":null,"datacontenttype":"text/plain"`, "", "text/plain"},
		"an object that is called text": {`"data":{"a": 1},"datacontenttype":"text/plain"`, `{"a": 1}`, "text/plain"},
		"bytes":                         {`"data_base64":"AAH\/"`, "\x00\x01\xff", ""},
		"bytes of a type":               {`"data_base64":"AAH/","datacontenttype":"image/png"`, "\x00\x01\xff", "image/png"},
		"bytes rather than data":        {`"data_base64":"Nw==","data":{"a":1}`, "7", ""},
		"null bytes":                    {`"data_base64":null,"data":1`, "1", "application/json"},
		"bytes of the older version":    {`"specversion":"0.3","datacontentencoding":"base64","data":"AAH/"`, "\x00\x01\xff", ""},
		"nothing":                       {`"subject":"a"`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ev := whole(t, `{"type":"t","source":"s",`+tc.members+`}`, Input{})
			require.Equal(t, tc.data, string(ev.Data()))
			require.Equal(t, tc.contentType, ev.DataContentType())
			require.Equal(t, sdk.CloudEventsVersionV1, ev.SpecVersion())
			require.NotContains(t, ev.Extensions(), contentEncoding)
		})
	}
}

func TestAttributesOfAWholeEventAreUnchanged(t *testing.T) {
	t.Parallel()
	ev := whole(t, `{"specversion":"1.0","id":" 1 ","source":"/münchen a?b","type":"t","subject":"ä%\n","time":"2026-01-02T03:04:05+01:00",
		"dataschema":"https://example.com/a","Tenant":"a","urgent":true,"tries":-3,"ratio":1.5,"large":3000000000,"none":null,"region":""}`,
		Input{ID: "2", Source: "other", Extensions: map[string]string{"tenant": "b", "region": "c"}})
	require.Equal(t, " 1 ", ev.ID())
	require.Equal(t, "/münchen a?b", ev.Source())
	require.Equal(t, "ä%\n", ev.Subject())
	require.Equal(t, "2026-01-02T02:04:05Z", ev.Time().UTC().Format("2006-01-02T15:04:05Z07:00"))
	require.Equal(t, "https://example.com/a", ev.DataSchema())
	require.Equal(t, map[string]any{
		"tenant": "a", "urgent": true, "tries": int32(-3), "ratio": "1.5", "large": "3000000000", "region": "c",
	}, ev.Extensions())
}

func TestFlagsFillInMissingAttributesOfAWholeEvent(t *testing.T) {
	t.Parallel()
	ev := whole(t, `{"type":"t","id":null,"source":""}`, Input{ID: "1", Source: "s", Extensions: map[string]string{"tenant": "a"}})
	require.Equal(t, "1", ev.ID())
	require.Equal(t, "s", ev.Source())
	require.Equal(t, map[string]any{"tenant": "a"}, ev.Extensions())
	first, second := whole(t, `{"type":"t","source":"s"}`, Input{}), whole(t, `{"type":"t","source":"s"}`, Input{})
	require.NotEqual(t, first.ID(), second.ID())
}

func TestInvalidEventIsRejectedWithTheMemberAndTheRemedy(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]string{
		`"specversion":"2.0"`:                   `specversion: unknown value: 2.0; write "1.0", or leave it out`,
		`"specversion":1.0`:                     `specversion: MUST be a string; write "1.0", or leave it out`,
		`"type":5`:                              "type: MUST be a string",
		`"type":" "`:                            "type: MUST be a non-empty string",
		`"id":" "`:                              "id: MUST be a non-empty string; write one, or leave it out for a random one",
		`"source":":"`:                          "source: is not a URI-reference; write one, as shop or /shop/orders",
		`"source":"#"`:                          "source: REQUIRED; write one, as shop or /shop/orders",
		`"time":"yesterday"`:                    "time: is not an RFC 3339 timestamp; write it as 2026-01-02T03:04:05Z",
		`"dataschema":":"`:                      "dataschema: is not a URI; write an absolute URI",
		`"dataschema":"a/b"`:                    "write an absolute URI, as https://example.com/order.json",
		`"datacontenttype":"a/b/c"`:             "write one as application/json",
		`"data_base64":5`:                       "data_base64: MUST be a string",
		`"data_base64":"%"`:                     "the data: MUST be base64",
		`"tenant":{"a":1}`:                      "tenant: MUST be a string, a number or a boolean",
		`"my-tenant":"a"`:                       "my-tenant: is not a name for an extension: letters and digits only",
		`"":"a"`:                                ": is not a name for an extension",
		`"ID":"a"`:                              "ID: is not a name for an extension",
		`"Data":"a"`:                            "Data: is not a name for an extension",
		`"time":1,"id":2`:                       "id: MUST be a string; write one, or leave it out for a random one\ntime: MUST be a string",
		`"` + strings.Repeat("é", 1000) + `":1`: strings.Repeat("é", 40) + ": is not",
		`"specversion":"0.3","datacontentencoding":"base64","data":5`:   "data: MUST be a string with base64",
		`"specversion":"0.3","datacontentencoding":"base64","data":"%"`: "the data: MUST be base64",
		`"specversion":"0.3","datacontentencoding":"rot13","data":"a"`:  "datacontentencoding: invalid",
		`"specversion":"0.3","data_base64":"Nw=="`:                      "data_base64: is not a member of version 0.3; set specversion 1.0",
	} {
		t.Run(members, func(t *testing.T) {
			t.Parallel()
			text := `[{"type":"t","source":"s"},{"type":"t","source":"s",` + members + `}]`
			_, err := Build(Input{HasContent: true, Content: []byte(text)})
			require.ErrorContains(t, err, "event 2: ")
			require.ErrorContains(t, err, want)
			require.Equal(t, exit.Usage, exit.CodeOf(err))
		})
	}
}

func TestEventBuiltFromFlagsHasTheContentAsData(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		content, contentType, want string
		base64                     bool
	}{
		"JSON":                       {`{"b": 1.0}`, "", "application/json", false},
		"JSON with space around it":  {"1\n", "", "application/json", true},
		"text":                       {" a\n", "", "text/plain; charset=utf-8", false},
		"bytes":                      {"\xff\x00", "", "application/octet-stream", true},
		"bytes that are called text": {"\xff", "text/plain", "text/plain", true},
		"nothing":                    {"", "", "text/plain; charset=utf-8", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			batch, err := Build(Input{Type: " t ", Source: "a b", ID: "1", Subject: "s", HasContent: true, Content: []byte(tc.content), ContentType: tc.contentType})
			require.NoError(t, err)
			require.True(t, batch.Single)
			ev := batch.Events[0]
			require.Equal(t, tc.content, string(ev.Data()))
			require.Equal(t, tc.want, ev.DataContentType())
			require.Equal(t, tc.base64, ev.DataBase64)
			require.Equal(t, []string{" t ", "a b", "1", "s"}, []string{ev.Type(), ev.Source(), ev.ID(), ev.Subject()})
		})
	}
	_, err := Build(Input{Type: "t", Source: ":", ContentType: "a/b/c"})
	require.EqualError(t, err, "the flags do not make a valid event: source: is not a URI-reference; write one, as shop or /shop/orders")
}

func FuzzWhatIsTakenTheDataPlaneReadsWithTheSameData(f *testing.F) {
	for _, members := range []string{
		`"data":{"a": 1}`, `"data":"\u00e4\ud800"`, `"data":"a","datacontenttype":"text/plain"`, `"data":[1 ],"datacontenttype":"a/b+json; c=d"`,
		`"data_base64":"AAH/"`, `"data_base64":5`, `"":1`, `"a":1e3,"b":null,"C":true`, `"specversion":"0.3","data":5,"datacontentencoding":"base64"`,
		`"specversion":"0.3","schemaurl":"a","data":"Nw=="`, `"data":1,"data":2,"datacontenttype":"Text/JSON"`, `"source":"%","time":"2026-01-02T03:04:05Z"`,
	} {
		f.Add([]byte(`{"type":"t","source":"s",` + members + `}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		batch, err := Build(Input{HasContent: true, Content: text, Source: "s", ID: "1"})
		if err != nil {
			require.Equal(t, exit.Usage, exit.CodeOf(err))
			return
		}
		pending := make([]int, len(batch.Events))
		for i := range pending {
			pending[i] = i
		}
		body, err := encodeBatch(batch.Events, pending)
		require.NoError(t, err)
		parts, err := cloudevent.SplitBatch(body, len(pending))
		require.NoError(t, err, "%s", body)
		require.Len(t, parts, len(pending))
		for i, part := range parts {
			got, err := cloudevent.FromStructured(part)
			require.NoError(t, err, "%s", part)
			require.NoError(t, got.Validate(), "%s", part)
			require.Equal(t, string(batch.Events[i].Data()), string(got.Data), "%s", part)
			require.Equal(t, batch.Events[i].ID(), got.ID)
		}
	})
}
