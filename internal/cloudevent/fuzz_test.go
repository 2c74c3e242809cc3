package cloudevent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/stretchr/testify/require"
)

// FuzzFromStructured: no bytes make it panic, what it takes is JSON, what is read is written as the same event, and the
// SDK reads it alike where it can.
func FuzzFromStructured(f *testing.F) {
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","x":1,"y":false,"data":{"a":[1,"}"]}}`))
	f.Add([]byte(`{"specversion":"1.0","id":"\u00e4","source":"s","type":"t","datacontenttype":"text/plain","data":"\u2028"}`))
	f.Add([]byte(`{"specversion":"0.3","id":"1","source":"s","type":"t","datacontentencoding":"base64","data":"AAH/"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"AAH/","datacontenttype":"image/png"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"//s?a#b","type":"t","time":"2026-01-02T03:04:05Z","dataschema":"https://x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := FromStructured(body)
		if err != nil {
			return
		}
		require.True(t, json.Valid(body), "%q", body)
		if e.Validate() != nil || e.CheckText() != nil {
			return
		}
		sameWhenWritten(t, e)
		canBeSent(t, e)
		if judge, ok := judged(func() (event.Event, error) {
			var judge event.Event
			err := json.Unmarshal(body, &judge)
			return judge, err
		}); ok && plainMembers(body) {
			require.Equal(t, judge.ID(), e.ID)
			require.Equal(t, judge.Type(), e.Type)
			require.Equal(t, judge.Subject(), e.Subject)
			require.Equal(t, judge.DataContentType(), e.DataContentType)
			require.Equal(t, string(judge.Data()), string(e.Data))
			require.Equal(t, judge.DataBase64, e.Base64)
		}
	})
}

// plainMembers is true for an object whose members are unique and whose texts need no care: there the SDK's reading has
// rules of its own.
func plainMembers(body []byte) bool {
	seen := map[string]bool{}
	err := eachMember(body, func(name, value []byte) error {
		if seen[string(name)] || string(name) != strings.ToLower(string(name)) || value[0] == 'n' {
			return errSyntax
		}
		seen[string(name)] = true
		return nil
	})
	return err == nil && utf8.Valid(body) && !bytes.Contains(body, []byte(`\`)) && !seen[`""`] &&
		(!seen[`"data"`] || !seen[`"data_base64"`]) && !bytes.Contains(body, []byte(`"0.3"`))
}

// FuzzFromBinary: no headers make it panic, and what the SDK takes for an event is read alike.
func FuzzFromBinary(f *testing.F) {
	f.Add("1.0", "1", "s", "t", "application/json", "Ce-X", "1", []byte(`{"a":1}`))
	f.Add("0.3", "1", "s", "t", "text/plain", "Ce-Datacontentencoding", "base64", []byte("AAH/"))
	f.Add("1.0", "ü\xff", "//s", "a b", "", "Ce-Time", "2026-01-02T03:04:05Z", []byte("\xff"))
	f.Fuzz(func(t *testing.T, version, id, source, eventType, contentType, name, value string, data []byte) {
		header := http.Header{}
		header.Set(name, value)
		for attribute, text := range map[string]string{
			"Ce-Specversion": version, "Ce-Id": id, "Ce-Source": source, "Ce-Type": eventType, "Content-Type": contentType,
		} {
			if text != "" {
				header[attribute] = []string{text}
			}
		}
		e, err := FromBinary(header, data)
		if err != nil || e.Validate() != nil {
			return
		}
		canBeSent(t, e)
		if e.CheckText() != nil {
			return
		}
		sameWhenWritten(t, e)
		if judge, ok := judged(func() (event.Event, error) {
			message := cehttp.NewMessage(maps.Clone(header), io.NopCloser(bytes.NewReader(data)))
			if message.ReadEncoding() != binding.EncodingBinary {
				return event.Event{}, binding.ErrUnknownEncoding
			}
			ev, err := binding.ToEvent(context.Background(), message)
			if err != nil {
				return event.Event{}, err
			}
			return *ev, nil
		}); ok && version == version1 {
			require.Equal(t, judge.ID(), strings.TrimSpace(e.ID))
			require.Equal(t, judge.Type(), strings.TrimSpace(e.Type))
			require.Equal(t, judge.Subject(), strings.TrimSpace(e.Subject)) // as net/http does for both
			require.Equal(t, judge.DataContentType(), strings.TrimSpace(e.DataContentType))
			require.Equal(t, string(judge.Data()), string(e.Data))
			for _, x := range e.Extensions {
				text, err := types.Format(judge.Extensions()[x.Name])
				require.NoError(t, err)
				require.Equal(t, strings.TrimSpace(text), strings.TrimSpace(x.Value))
			}
		}
	})
}

// FuzzRoundTrip: whatever validates comes back from JSON and from headers as it was, and the SDK reads what is written.
func FuzzRoundTrip(f *testing.F) {
	f.Add("1", "s", "t", "sub", "application/json", "x", "y", []byte(`{"a":1}`), false)
	f.Add("ü", "//s", "a.b", "", "Application/JSON ; a=b", "x1", "\u2028", []byte(` {"a":"\ud800"}`), false)
	f.Add("1", "s", "t", "sub", "image/png", "x", "y", []byte("\xff\xd8"), true)
	f.Fuzz(func(t *testing.T, id, source, eventType, subject, contentType, name, value string, data []byte, base64 bool) {
		e := Event{ID: id, Source: source, Type: eventType, Subject: subject, DataContentType: contentType, Base64: base64 && len(data) > 0}
		if len(data) > 0 {
			e.Data = data
		}
		if isName(name) && e.place(name) == nil && value != "" {
			e.SetExtension(name, value)
		}
		if e.Validate() != nil || e.CheckText() != nil {
			return
		}
		sameWhenWritten(t, e)
		header := canBeSent(t, e)
		if !strings.Contains(strings.Join(slices.Concat(slices.Collect(maps.Values(header))...), ""), "%") {
			back, err := FromBinary(header, e.Data)
			require.NoError(t, err)
			back.Base64 = e.Base64
			want := e
			want.DataContentType = e.contentType()
			require.Equal(t, want, back)
		}
		judge, ok := judged(func() (event.Event, error) {
			var judge event.Event
			err := json.Unmarshal(e.AppendStructured(nil), &judge)
			return judge, err
		})
		require.True(t, ok || !utf8.ValidString(id) || json.Valid(data), "the SDK does not read %q", e.AppendStructured(nil))
		if ok {
			require.Equal(t, e.ID, judge.ID())
			require.Equal(t, string(e.Data), string(judge.Data()))
		}
	})
}

// FuzzValidJSON has encoding/json as its judge.
func FuzzValidJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1,-0.5e+10,{}],"":null}`, ` [true , false ] `, `01`, `"\u12G4"`, "\"\x01\"", `{"a":1,}`, `[}`, `1.`, `-`, ``} {
		f.Add([]byte(text))
	}
	f.Add([]byte(strings.Repeat("[", 600) + strings.Repeat("]", 600)))
	f.Add([]byte(strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 599) + "]"))
	for before := range 17 { // strings are looked at eight bytes at a time
		for _, special := range []string{`\n`, `\`, "\x1f", "\x00", "\x7f", "\xff", "\"", " "} {
			f.Add([]byte(`"` + strings.Repeat("a", before) + special + `bcdefghijk"`))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		require.Equal(t, json.Valid(data), ValidJSON(data), "%q", data)
	})
}

func sameWhenWritten(t *testing.T, e Event) {
	t.Helper()
	written := e.AppendStructured(nil)
	require.True(t, json.Valid(written), "%q", written)
	again, err := FromStructured(written)
	require.NoError(t, err, "%q", written)
	require.Equal(t, string(e.Data), string(again.Data))
	e.Data, again.Data, e.Base64, again.Base64 = nil, nil, false, false
	require.Equal(t, e, again)
}

// canBeSent checks what net/http checks before it writes headers.
func canBeSent(t *testing.T, e Event) http.Header {
	t.Helper()
	header := http.Header{}
	e.SetHeader(header)
	for name, values := range header {
		require.Regexp(t, `^[A-Za-z0-9-]+$`, name)
		for i := range len(values[0]) {
			c := values[0][i]
			require.False(t, (c < ' ' && c != '\t') || c == 0x7f, "%q cannot be sent", values[0])
		}
	}
	return header
}

// judged is what the SDK reads, if it takes it for a valid event and does not panic.
func judged(read func() (event.Event, error)) (judge event.Event, ok bool) {
	defer func() { ok = recover() == nil && ok }()
	judge, err := read()
	return judge, err == nil && judge.Context != nil && judge.Validate() == nil
}
