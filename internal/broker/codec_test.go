package broker

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

func newEvent(change ...func(*event.Event)) event.Event {
	e := event.New()
	e.SetID("A1")
	e.SetSource("shop")
	e.SetType("order.received.v1")
	for _, c := range change {
		c(&e)
	}
	return e
}

// withData sets data without making it base64.
func withData(contentType string, data []byte) func(*event.Event) {
	return func(e *event.Event) {
		e.SetDataContentType(contentType)
		e.DataEncoded = data
	}
}

func TestEncodeWritesTheWireFormat(t *testing.T) {
	t.Parallel()
	message, err := encode(newEvent(withData("application/json", []byte(`{"b": 1,  "a":"<ü>"}`))))
	require.NoError(t, err)
	require.Equal(t, "kyma.shop.order.received.v1", message.Subject)
	require.JSONEq(t, `{"specversion":"1.0","id":"A1","source":"shop","type":"kyma.shop.order.received.v1",
		"datacontenttype":"application/json","data":{"b":1,"a":"<ü>"},"originaltype":"order.received.v1"}`, string(message.Data))
	require.Contains(t, string(message.Data), `"data":{"b": 1,  "a":"<ü>"}`, "the data is not verbatim")
	require.Equal(t, nats.Header{
		"Content-Type":   {"application/json"},
		"ce-specversion": {"1.0"},
		"ce-type":        {"kyma.shop.order.received.v1"},
		"ce-source":      {"shop"},
		"ce-id":          {"A1"},
		"Nats-Msg-Id":    {messageID("shop", "A1")},
	}, message.Header)
}

func TestMessageIDTellsSourcesApart(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, messageID("a", "1"), messageID("b", "1"))
	require.NotEqual(t, messageID("a", "b1"), messageID("ab", "1"))
	require.Equal(t, "05a9c569a185ac60f5511f9760bc3f1a", messageID("a", "1"), "it must stay the same in every version")
}

func TestEventsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	deep := []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))
	tests := map[string]struct {
		event      event.Event
		wantBase64 bool
		wantInBody string
	}{
		"no data": {event: newEvent()},
		"no data but a content type": {
			event: newEvent(func(e *event.Event) { e.SetDataContentType("application/json") }),
		},
		"JSON":                      {event: newEvent(withData("application/json", []byte(`{"a":1.50,"b":[null,true,"\u0041\/"]}`)))},
		"JSON without content type": {event: newEvent(func(e *event.Event) { e.DataEncoded = []byte(`[1e400,-0,0.10]`) })},
		"JSON with a charset":       {event: newEvent(withData("application/json; charset=utf-8", []byte(`"text"`)))},
		"JSON with a shouted type":  {event: newEvent(withData("Application/JSON", []byte(`{"a":1}`))), wantBase64: true},
		"JSON with space around":    {event: newEvent(withData("application/json", []byte("{}\n"))), wantBase64: true},
		"JSON that is too deep":     {event: newEvent(withData("application/json", deep)), wantBase64: true},
		"JSON that is none":         {event: newEvent(withData("application/json", []byte(`{"a":`))), wantBase64: true},
		"JSON that is not UTF-8":    {event: newEvent(withData("application/json", []byte("\"\xff\""))), wantBase64: true},
		"a JSON number":             {event: newEvent(withData("text/json", []byte(`12345678901234567890123`)))},
		"text":                      {event: newEvent(withData("text/plain", []byte("a \"quoted\"\nline \u2028 \x00 ü"))), wantInBody: `"data":"a \"quoted\"`},
		"text in JSON's clothes":    {event: newEvent(withData("application/vnd.shop+json", []byte(`{"a":1}`))), wantInBody: `"data":"{\"a\":1}"`},
		"bytes":                     {event: newEvent(withData("application/octet-stream", []byte{0, 0xff, 0xfe, '"'})), wantBase64: true},
		"bytes without type":        {event: newEvent(func(e *event.Event) { e.DataEncoded = []byte{0xff} }), wantBase64: true},
		"JSON that came in base64": {event: newEvent(func(e *event.Event) {
			require.NoError(t, e.SetData("application/json", []byte(`{"a":1}`)))
		}), wantBase64: true, wantInBody: `"data_base64":"eyJhIjoxfQ=="`},
		"all attributes": {event: newEvent(func(e *event.Event) {
			e.SetSubject("an \"order\" \u2603")
			e.SetTime(time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC))
			e.SetDataSchema("https://example.com/schema?a=b#c")
			e.SetSource("https://example.com/shop?x=1")
			e.SetExtension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			e.SetExtension("truth", true)
			e.SetExtension("number", 42)
			e.SetExtension("text", "line\nbreak")
		})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message, err := encode(tc.event)
			require.NoError(t, err)
			require.True(t, json.Valid(message.Data))
			require.Contains(t, string(message.Data), tc.wantInBody)
			back, err := load(message.Header, message.Data)
			require.NoError(t, err)
			require.Equal(t, tc.wantBase64, back.DataBase64)
			requireSame(t, tc.event, back)
		})
	}
}

// load is what the SDK makes of what decode reads.
func load(header nats.Header, body []byte) (event.Event, error) {
	decoded, err := decode(header, body)
	if err != nil {
		return event.Event{}, err
	}
	data := decoded.Data
	decoded.Data = nil // the SDK reads no numbers that a float64 does not hold
	e := event.New()
	err = json.Unmarshal(decoded.AppendStructured(nil), &e)
	e.DataEncoded, e.DataBase64 = data, decoded.Base64
	return e, err
}

// requireSame compares what a subscriber sees; the extension with the original
// type comes on top.
func requireSame(t testing.TB, want, got event.Event) {
	t.Helper()
	require.Equal(t, want.ID(), got.ID())
	require.Equal(t, want.Source(), got.Source())
	require.Equal(t, want.Type(), got.Type())
	require.Equal(t, want.Subject(), got.Subject())
	require.Equal(t, want.DataContentType(), got.DataContentType())
	require.Equal(t, want.DataSchema(), got.DataSchema())
	require.True(t, want.Time().Equal(got.Time()), "time: %s, %s", want.Time(), got.Time())
	require.True(t, bytes.Equal(want.Data(), got.Data()), "data: %q, %q", want.Data(), got.Data())
	extensions := map[string]any{}
	for name, value := range got.Extensions() {
		if name != ExtensionOriginalType {
			extensions[name] = value
		}
	}
	wanted := want.Extensions()
	if wanted == nil {
		wanted = map[string]any{}
	}
	require.Equal(t, wanted, extensions)
	require.Equal(t, want.Type(), got.Extensions()[ExtensionOriginalType])
}

func TestEncodeWritesExtensionsAsPlainValues(t *testing.T) {
	t.Parallel()
	moment := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	e := newEvent(func(e *event.Event) {
		e.SetExtension("when", moment)
		e.SetExtension("bytes", []byte("hi"))
		e.SetExtension("link", types.ParseURI("https://example.com/a"))
	})
	message, err := encode(e)
	require.NoError(t, err)
	back, err := load(message.Header, message.Data)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"when": "2026-02-03T04:05:06Z", "bytes": "aGk=", "link": "https://example.com/a",
		ExtensionOriginalType: "order.received.v1",
	}, back.Extensions())
	require.IsType(t, types.Timestamp{}, e.Extensions()["when"], "the caller's event was changed")
	require.Equal(t, "order.received.v1", e.Type())
}

func TestEncodeAddressesEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		source, eventType     string
		wantSubject, wantType string
		wantOriginal          bool
		wantErr               string
	}{
		"a plain type": {
			source: "shop", eventType: "order.received.v1", wantOriginal: true,
			wantSubject: "kyma.shop.order.received.v1", wantType: "kyma.shop.order.received.v1",
		},
		"source and type are cleaned": {
			source: "my.shop/eu", eventType: "or der.*>received.v1", wantOriginal: true,
			wantSubject: "kyma.myshopeu.order.received.v1", wantType: "kyma.myshopeu.order.received.v1",
		},
		"a type in the old format": {
			source: "kyma", eventType: "sap.kyma.custom.my-app.Account.Root.Created.v1",
			wantSubject: "kyma.sap.kyma.custom.myapp.AccountRoot.Created.v1",
			wantType:    "sap.kyma.custom.myapp.AccountRoot.Created.v1",
		},
		"a type that only begins like the old format": {
			source: "shop", eventType: "sap.kyma.customer.created.v1", wantOriginal: true,
			wantSubject: "kyma.shop.sap.kyma.customer.created.v1", wantType: "kyma.shop.sap.kyma.customer.created.v1",
		},
		"an empty segment": {
			source: "shop", eventType: "order..v1",
			wantErr: "event type cannot have empty segments after cleaning: kyma.shop.order..v1",
		},
		"a segment that cleaning empties": {
			source: "shop", eventType: "order.>.v1",
			wantErr: "event type cannot have empty segments after cleaning: kyma.shop.order..v1",
		},
		"a source that cleaning empties": {
			source: "/", eventType: "order.v1",
			wantErr: "event type cannot have empty segments after cleaning: kyma..order.v1",
		},
		"an old type that is too short": {
			source: "kyma", eventType: "sap.kyma.custom.app.created.v1",
			wantErr: "event type must have an application, an object, an operation and a version after its prefix: sap.kyma.custom.app.created.v1",
		},
		"an old type with an empty segment": {
			source: "kyma", eventType: "sap.kyma.custom.app..order.created.v1",
			wantErr: "event type must have",
		},
		"an old type that cleaning empties": {
			source: "kyma", eventType: "sap.kyma.custom.-.order.created.v1",
			wantErr: "event type cannot have empty segments after cleaning: sap.kyma.custom..order.created.v1",
		},
		"a type that no protocol line holds": {
			source: "shop", eventType: strings.Repeat("x", 5000), wantErr: "too long",
		},
		"a control character": {
			source: "shop", eventType: "order\x7f.v1", wantErr: "control characters",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message, err := encode(newEvent(func(e *event.Event) {
				e.SetSource(tc.source)
				e.SetType(tc.eventType)
				e.SetExtension(ExtensionOriginalType, "a lie")
			}))
			if tc.wantErr != "" {
				var invalid *InvalidEventError
				require.ErrorAs(t, err, &invalid)
				require.Contains(t, invalid.Reason, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.wantSubject, message.Subject)
			require.Equal(t, tc.wantType, message.Header.Get("ce-type"))
			back, err := load(message.Header, message.Data)
			require.NoError(t, err)
			if !tc.wantOriginal {
				require.Equal(t, tc.wantType, back.Type())
				require.NotContains(t, back.Extensions(), ExtensionOriginalType)
				return
			}
			require.Equal(t, tc.eventType, back.Type())
			require.Equal(t, tc.eventType, back.Extensions()[ExtensionOriginalType])
		})
	}
}

func TestEncodeRefusesInvalidEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		event event.Event
		want  string
	}{
		"no context":              {event: event.Event{}, want: "specversion"},
		"no id":                   {event: newEvent(func(e *event.Event) { e.Context.(*event.EventContextV1).ID = "" }), want: "id: MUST be"},
		"no type":                 {event: newEvent(func(e *event.Event) { e.SetType(" ") }), want: "type: MUST be"},
		"an id that is no text":   {event: newEvent(func(e *event.Event) { e.SetID("\xff") }), want: "id: MUST be valid UTF-8"},
		"a type that is no text":  {event: newEvent(func(e *event.Event) { e.SetType("a.\xff") }), want: "type: MUST be valid UTF-8"},
		"an extension named data": {event: newEvent(func(e *event.Event) { e.SetExtension("data", "x") }), want: "data: is not a name"},
		"an extension that is no text": {
			event: newEvent(func(e *event.Event) { e.SetExtension("note", "\xff") }), want: "note: MUST be valid UTF-8",
		},
		"a content type that is none": {
			event: newEvent(func(e *event.Event) { e.SetDataContentType("a b") }), want: "datacontenttype",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := encode(tc.event)
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			require.Contains(t, invalid.Reason, tc.want)
		})
	}
}

func TestEncodeLiftsOldVersionsOfTheSpecification(t *testing.T) {
	t.Parallel()
	old := event.New(event.CloudEventsVersionV03)
	old.SetID("A1")
	old.SetSource("shop")
	old.SetType("order.received.v1")
	old.SetDataContentType("text/plain")
	old.SetDataContentEncoding(event.Base64)
	old.DataEncoded = []byte("aGVsbG8=")

	message, err := encode(old)
	require.NoError(t, err)
	back, err := load(message.Header, message.Data)
	require.NoError(t, err)
	require.Equal(t, event.CloudEventsVersionV1, back.SpecVersion())
	require.Equal(t, "hello", string(back.Data()))

	old.DataEncoded = []byte("?")
	_, err = encode(old)
	require.Error(t, err)
}

func TestDecodeTakesForeignMessages(t *testing.T) {
	t.Parallel()
	structured := nats.Header{"Content-Type": {"application/json"}, "ce-specversion": {"1.0"}, "ce-id": {"header"}}
	tests := map[string]struct {
		header   nats.Header
		body     string
		wantType string
		wantData string
	}{
		"the body wins over the headers": {
			header:   structured,
			body:     `{"specversion":"1.0","id":"1","source":"s","type":"kyma.s.a.v1","originaltype":"a.v1","datacontenttype":"application/json","data":{"x":1}}`,
			wantType: "a.v1", wantData: `{"x":1}`,
		},
		"an event without original type": {
			body:     `{"specversion":"1.0","id":"1","source":"s","type":"a.v1"}`,
			wantType: "a.v1",
		},
		"a subject for a type": {
			body:     `{"specversion":"1.0","id":"1","source":"my.shop","type":"kyma.myshop.a.v1"}`,
			wantType: "a.v1",
		},
		"the subject of another source for a type": {
			body:     `{"specversion":"1.0","id":"1","source":"s","type":"kyma.myshop.a.v1"}`,
			wantType: "kyma.myshop.a.v1",
		},
		"version 0.3 in base64": {
			body:     `{"specversion":"0.3","id":"1","source":"s","type":"a.v1","datacontenttype":"text/plain","datacontentencoding":"base64","data":"aGk="}`,
			wantType: "a.v1", wantData: "hi",
		},
		"an empty encoding": {
			body:     `{"datacontentencoding":"","specversion":"0.3","id":"1","source":"s","type":"a.v1","subject":null}`,
			wantType: "a.v1",
		},
		"JSON under a content type of its own": {
			body:     `{"specversion":"1.0","id":"1","source":"s","type":"a.v1","datacontenttype":"application/vnd.s+json","data":{"x":1}}`,
			wantType: "a.v1", wantData: `{"x":1}`,
		},
		"pretty JSON": {
			body:     "{\n  \"specversion\": \"1.0\", \"id\": \"1\", \"source\": \"s\", \"type\": \"a.v1\",\n  \"data\": {\"x\": 1e400}\n}\n",
			wantType: "a.v1", wantData: `{"x": 1e400}`,
		},
		"binary mode": {
			header:   nats.Header{"Ce-SpecVersion": {"1.0"}, "ce-id": {"1"}, "CE-Source": {"s"}, "ce-type": {"a.v1"}, "content-type": {"text/plain"}, "ce-time": {"2026-01-02T03:04:05Z"}, "ce-note": {"x"}},
			body:     "hi",
			wantType: "a.v1", wantData: "hi",
		},
		"binary mode with JSON data": {
			header:   nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"a.v1"}, "Content-Type": {"application/json"}},
			body:     `{"x":1}`,
			wantType: "a.v1", wantData: `{"x":1}`,
		},
		"binary mode without data": {
			header:   nats.Header{"ce-specversion": {"0.3"}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"a.v1"}},
			wantType: "a.v1",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := load(tc.header, []byte(tc.body))
			require.NoError(t, err)
			require.Equal(t, "1", got.ID())
			require.Equal(t, tc.wantType, got.Type())
			require.Equal(t, tc.wantData, string(got.Data()))
		})
	}
}

func TestDecodeRefusesWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header nats.Header
		body   string
	}{
		"nothing":                           {},
		"text":                              {body: "hello"},
		"JSON that is no event":             {body: `{"hello":"world"}`},
		"an event without id":               {body: `{"specversion":"1.0","source":"s","type":"a"}`},
		"an unknown version":                {body: `{"specversion":"2.0","id":"1","source":"s","type":"a"}`},
		"base64 that is a number":           {body: `{"specversion":"1.0","id":"1","source":"s","type":"a","data_base64":1}`},
		"base64 before the version":         {body: `{"data_base64":1,"specversion":"1.0","id":"1","source":"s","type":"a"}`},
		"binary mode without id":            {header: nats.Header{"ce-specversion": {"1.0"}, "ce-source": {"s"}, "ce-type": {"a"}}},
		"binary mode of an unknown version": {header: nats.Header{"ce-specversion": {"2.0"}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"a"}}},
		"binary mode with a broken time":    {header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"a"}, "ce-time": {"now"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(tc.header, []byte(tc.body))
			require.ErrorIs(t, err, ErrUndecodable)
		})
	}
}

func FuzzEventsComeBackAsTheyWere(f *testing.F) {
	f.Add("1", "shop", "order.v1", "application/json", []byte(`{"a":[1,2,{"b":null}]}`), "note", "text", false)
	f.Add("1", "//shop", "a b.v1", "text/plain; charset=utf-8", []byte("ü\x00\"\\"), "a1", "\u2028", true)
	f.Add("", ".", "..", "image/png", []byte{0xff, 0xd8}, "data", "", false)
	f.Add("1", "s", "t", "", []byte(`-0.0e+10`), "originaltype", "x", false)
	f.Add("1", "s", "t", "text/json", []byte(`"\ud800"`), "data", "x", false)
	f.Fuzz(func(t *testing.T, id, source, eventType, contentType string, data []byte, name, value string, base64 bool) {
		e := newEvent(func(e *event.Event) {
			e.SetID(id)
			e.SetSource(source)
			e.SetType(eventType)
			e.SetDataContentType(contentType)
			e.DataEncoded, e.DataBase64 = data, base64
			e.SetExtension(name, value)
		})
		message, err := encode(e)
		if err != nil {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			return
		}
		require.True(t, json.Valid(message.Data))
		back, err := load(message.Header, message.Data)
		require.NoError(t, err)
		require.Equal(t, e.ID(), back.ID())
		require.Equal(t, e.Source(), back.Source())
		require.True(t, bytes.Equal(data, back.Data()), "data: %q, %q", data, back.Data())
		require.Equal(t, e.DataContentType(), back.DataContentType())
		if !strings.HasPrefix(e.Type(), oldPrefix+".") {
			require.Equal(t, e.Type(), back.Type())
		}
		if !strings.EqualFold(name, ExtensionOriginalType) {
			require.Equal(t, e.Extensions()[strings.ToLower(name)], back.Extensions()[strings.ToLower(name)])
		}
	})
}

func FuzzDecodeSurvivesEverything(f *testing.F) {
	f.Add("1.0", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"a","data_base64":1}`))
	f.Add("0.3", []byte(`{"specversion":"0.3","id":"1","source":"s","type":"a","data":"x"}`))
	f.Add("", []byte(`{`))
	f.Fuzz(func(t *testing.T, version string, body []byte) {
		header := nats.Header{"ce-specversion": {version}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"a"}}
		e, err := load(header, body)
		if err != nil {
			require.ErrorIs(t, err, ErrUndecodable)
			return
		}
		require.NoError(t, e.Validate())
	})
}
