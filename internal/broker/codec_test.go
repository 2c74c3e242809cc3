package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-logr/logr/funcr"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func newEvent(change ...func(*cloudevent.Event)) *cloudevent.Event {
	e := &cloudevent.Event{ID: "A1", Source: "shop", Type: "order.received.v1"}
	for _, c := range change {
		c(e)
	}
	return e
}

func withData(contentType string, data []byte) func(*cloudevent.Event) {
	return func(e *cloudevent.Event) { e.DataContentType, e.Data = contentType, data }
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
		"Nats-Msg-Id":    {messageID("kyma.shop.order.received.v1", newEvent())},
	}, message.Header)
}

func TestAMessageIDIsOfSubjectPublisherSourceAndID(t *testing.T) {
	t.Parallel()
	id := func(subject, publisher, source, id string) string {
		return messageID(subject, &cloudevent.Event{Publisher: publisher, Source: source, ID: id})
	}
	all := []string{
		id("kyma.a.t", "", "a", "1"), id("kyma.b.t", "", "a", "1"), id("kyma.a.t", "red", "a", "1"), id("kyma.a.t", "blue", "a", "1"),
		id("kyma.a.t", "", "b", "1"), id("kyma.a.t", "", "a", "2"), id("kyma.a.t", "", "a2", ""), id("kyma.a.tr", "ed", "a", "1"),
	}
	for i, one := range all {
		require.NotContains(t, all[i+1:], one)
	}
	require.Equal(t, "47a269dcf94d8a5f50db3bbeaa41adee", all[0],
		"another id stores a repeat twice while two releases run side by side: ADR 74")
}

func TestEventsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	deep := []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000))
	tests := map[string]struct {
		event      *cloudevent.Event
		wantBase64 bool
		wantInBody string
	}{
		"no data":                    {event: newEvent()},
		"no data but a content type": {event: newEvent(withData("application/json", nil))},
		"JSON":                       {event: newEvent(withData("application/json", []byte(`{"a":1.50,"b":[null,true,"\u0041\/"]}`)))},
		"JSON without content type":  {event: newEvent(withData("", []byte(`[1e400,-0,0.10]`)))},
		"JSON with a charset":        {event: newEvent(withData("application/json; charset=utf-8", []byte(`"text"`)))},
		"JSON with a shouted type":   {event: newEvent(withData("Application/JSON", []byte(`{"a":1}`))), wantBase64: true},
		"JSON with space around":     {event: newEvent(withData("application/json", []byte("{}\n"))), wantBase64: true},
		"JSON that is too deep":      {event: newEvent(withData("application/json", deep)), wantBase64: true},
		"JSON that is none":          {event: newEvent(withData("application/json", []byte(`{"a":`))), wantBase64: true},
		"JSON that is not UTF-8":     {event: newEvent(withData("application/json", []byte("\"\xff\""))), wantBase64: true},
		"a JSON number":              {event: newEvent(withData("text/json", []byte(`12345678901234567890123`)))},
		"text":                       {event: newEvent(withData("text/plain", []byte("a \"quoted\"\nline \u2028 \x00 ü"))), wantInBody: `"data":"a \"quoted\"`},
		"text in JSON's clothes":     {event: newEvent(withData("application/vnd.shop+json", []byte(`{"a":1}`))), wantInBody: `"data":"{\"a\":1}"`},
		"bytes":                      {event: newEvent(withData("application/octet-stream", []byte{0, 0xff, 0xfe, '"'})), wantBase64: true},
		"bytes without type":         {event: newEvent(withData("", []byte{0xff})), wantBase64: true},
		"JSON that came in base64": {
			event:      newEvent(withData("application/json", []byte(`{"a":1}`)), func(e *cloudevent.Event) { e.Base64 = true }),
			wantBase64: true, wantInBody: `"data_base64":"eyJhIjoxfQ=="`,
		},
		"all attributes": {event: newEvent(func(e *cloudevent.Event) {
			e.Subject = "an \"order\" \u2603"
			e.Time = "2026-02-03T04:05:06.789+01:00"
			e.DataSchema = "https://example.com/schema?a=b#c"
			e.Source = "https://example.com/shop?x=1"
			e.Extensions = []cloudevent.Extension{
				{Name: "number", Value: "42", Kind: cloudevent.Integer},
				{Name: "text", Value: "line\nbreak"},
				{Name: "traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
				{Name: "truth", Value: "true", Kind: cloudevent.Bool},
			}
		})},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := *tc.event
			want.Extensions = slices.Clone(want.Extensions)
			message, err := encode(tc.event)
			require.NoError(t, err)
			require.Equal(t, want, *tc.event, "the caller's event was changed")
			require.Contains(t, string(message.Data), tc.wantInBody)
			back, err := decode(message.Header, message.Data)
			require.NoError(t, err)
			require.Equal(t, tc.wantBase64, back.Base64)
			back.Base64 = want.Base64
			want.SetExtension(ExtensionOriginalType, want.Type)
			require.Equal(t, want, back)

			if name == "JSON without content type" {
				return // the SDK reads no number that a float64 does not hold
			}
			kymas := event.New() // which reads with the SDK
			require.NoError(t, json.Unmarshal(message.Data, &kymas))
			require.Equal(t, string(want.Data), string(kymas.Data()))
			require.NoError(t, kymas.Validate())
		})
	}
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
			message, err := encode(newEvent(func(e *cloudevent.Event) {
				e.Source, e.Type = tc.source, tc.eventType
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
			back, err := decode(message.Header, message.Data)
			require.NoError(t, err)
			if !tc.wantOriginal {
				require.Equal(t, tc.wantType, back.Type)
				require.Empty(t, back.Extensions)
				return
			}
			require.Equal(t, tc.eventType, back.Type)
			require.Equal(t, tc.eventType, back.Extension(ExtensionOriginalType))
		})
	}
}

func TestEncodeRefusesInvalidEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		event *cloudevent.Event
		want  string
	}{
		"nothing":                {event: &cloudevent.Event{}, want: "source: REQUIRED"},
		"no id":                  {event: newEvent(func(e *cloudevent.Event) { e.ID = "" }), want: "id: MUST be"},
		"no type":                {event: newEvent(func(e *cloudevent.Event) { e.Type = " " }), want: "type: MUST be"},
		"an empty reference":     {event: newEvent(func(e *cloudevent.Event) { e.Source = "#" }), want: "source: MUST be"},
		"an id that is no text":  {event: newEvent(func(e *cloudevent.Event) { e.ID = "\xff" }), want: "id: MUST be valid UTF-8"},
		"a type that is no text": {event: newEvent(func(e *cloudevent.Event) { e.Type = "a.\xff" }), want: "type: MUST be valid UTF-8"},
		"an extension that is no text": {
			event: newEvent(func(e *cloudevent.Event) { e.SetExtension("note", "\xff") }), want: "note: MUST be valid UTF-8",
		},
		"a content type that is none": {event: newEvent(withData("a b", nil)), want: "datacontenttype"},
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
			got, err := decode(tc.header, []byte(tc.body))
			require.NoError(t, err)
			require.Equal(t, "1", got.ID)
			require.Equal(t, tc.wantType, got.Type)
			require.Equal(t, tc.wantData, string(got.Data))
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
			_, err := decode(tc.header, []byte(tc.body))
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
		e := newEvent(withData(contentType, data), func(e *cloudevent.Event) {
			e.ID, e.Source, e.Type, e.Base64 = id, source, eventType, base64
		})
		if name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r < 'a' || r > 'z' }) {
			if _, attribute := newEvent().Attribute(name); !attribute && name != "data" {
				e.SetExtension(name, value)
			}
		}
		message, err := encode(e)
		if err != nil {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			return
		}
		require.True(t, json.Valid(message.Data))
		back, err := decode(message.Header, message.Data)
		require.NoError(t, err)
		require.Equal(t, e.ID, back.ID)
		require.Equal(t, e.Source, back.Source)
		require.True(t, bytes.Equal(data, back.Data), "data: %q, %q", data, back.Data)
		require.Equal(t, e.DataContentType, back.DataContentType)
		if !routing.IsOldType(e.Type) {
			require.Equal(t, e.Type, back.Type)
		}
		if name != ExtensionOriginalType {
			require.Equal(t, e.Extension(name), back.Extension(name))
		}
	})
}

func FuzzDecodeSurvivesEverything(f *testing.F) {
	f.Add("1.0", []byte(`{"specversion":"1.0","id":"1","source":"s","type":"a","data_base64":1}`))
	f.Add("0.3", []byte(`{"specversion":"0.3","id":"1","source":"s","type":"a","data":"x"}`))
	f.Add("", []byte(`{`))
	f.Fuzz(func(t *testing.T, version string, body []byte) {
		header := nats.Header{"ce-specversion": {version}, "ce-id": {"1"}, "ce-source": {"s"}, "ce-type": {"a"}}
		e, err := decode(header, body)
		if err != nil {
			require.ErrorIs(t, err, ErrUndecodable)
			return
		}
		require.NoError(t, e.Validate())
	})
}

// FuzzAddress has nats-server as its judge: whatever source and type are, either the publisher gets the reason, or the
// server takes the subject, and a Subscription that names them asks for it.
func FuzzAddress(f *testing.F) {
	f.Add("shop", "order.received.v1")
	f.Add("my.shop/eu", "or der.*>received.v1")
	f.Add("kyma", "sap.kyma.custom.my-app.Account.Root.Created.v1")
	f.Add("rouse-.redelivery", "\xff.\u2028\u0085")
	f.Add("\x00", "..")
	f.Fuzz(func(t *testing.T, source, eventType string) {
		found, err := addressOf(source, eventType)
		if err != nil {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			return
		}
		require.True(t, server.IsValidPublishSubject(found.subject), "%q", found.subject)
		require.NoError(t, checkSubject(found.subject))
		require.True(t, strings.HasPrefix(found.subject, routing.SubjectPrefix+"."))
		require.False(t, routing.IsRedelivery(found.subject))
		if found.keepOriginal {
			require.Equal(t, routing.Subject(source, eventType, false), found.subject)
			again, err := addressOf(routing.CleanSource(source), routing.CleanType(eventType))
			require.NoError(t, err)
			require.Equal(t, found.subject, again.subject, "cleaning twice must change nothing")
			return
		}
		require.Equal(t, routing.Subject("", found.wireType, true), found.subject)
		again, err := addressOf(source, found.wireType)
		require.NoError(t, err)
		require.Equal(t, found, again, "cleaning twice must change nothing")
	})
}

// FuzzFilters: a Subscription is either refused, or the server takes all its subjects as filters, and events that are
// published with its own source and types are among them.
func FuzzFilters(f *testing.F) {
	f.Add("shop", "order.received.v1", "order.*.v1", false)
	f.Add("", "sap.kyma.custom.shop.order.created.v1", "sap.kyma.>", true)
	f.Add("a", "b.\x00", "*.*.>", true)
	f.Add("rouse-redelivery", "x.>.y", "..", true)
	f.Fuzz(func(t *testing.T, source, one, other string, exact bool) {
		sub := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price"}}
		sub.Spec = eventingv1alpha2.SubscriptionSpec{
			Sink: "http://price.shop.svc.cluster.local", Source: source, Types: []string{one, other},
			TypeMatching: eventingv1alpha2.TypeMatchingStandard,
		}
		if exact {
			sub.Spec.TypeMatching = eventingv1alpha2.TypeMatchingExact
		}
		route, err := routing.FromSubscription(sub, routing.Policy{})
		if err != nil {
			require.ErrorIs(t, err, routing.ErrInvalidSubject)
			return
		}
		for i, subject := range route.Subjects {
			require.True(t, server.IsValidSubject(subject), "%q", subject)
			require.True(t, exact || server.IsValidPublishSubject(subject), "%q", subject)
			for j, second := range route.Subjects {
				require.False(t, i != j && server.SubjectMatchesFilter(subject, second), "%q is in %q", subject, second)
			}
		}
		for _, mapping := range route.Types {
			published, err := addressOf(source, mapping.Original)
			if exact || err != nil || !published.keepOriginal {
				continue
			}
			require.Equal(t, mapping.Subject, published.subject)
		}
	})
}

func TestASmallMaxPayloadIsLogged(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.WithMaxPayload(64<<10))
	var mu sync.Mutex
	var lines []string
	conn, err := Connect(t.Context(), Options{URL: server.URL(), Name: t.Name()}, funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	awaitConnected(t, conn)
	publisher := NewPublisher(conn, publisherOptions())
	logged := func(size string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, `"maxRequestSize"=`+size+` `) })
		}
	}
	publisher.ExpectEvents(32 << 10)
	publisher.ExpectEvents(64 << 10)
	require.Eventually(t, logged("65536"), testTimeout, moment)
	require.False(t, logged("32768")(), "those fit")
}
