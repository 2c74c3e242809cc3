package event

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

const (
	specVersion     = "specversion"
	contentType     = "datacontenttype"
	contentEncoding = sdk.DataContentEncodingKey // of version 0.3
	dataBase64      = "data_base64"
	typeJSON        = sdk.ApplicationJSON
)

// members are those of a JSON event.
type members map[string]json.RawMessage

// set leaves out what is empty.
func (m members) set(name, value string) {
	if value != "" {
		m[name], _ = json.Marshal(value) // there is no text that it fails for
	}
}

func (m members) setMissing(name, value string) {
	if _, has := m[name]; !has {
		m.set(name, value)
	}
}

// dropEmpty takes away what says nothing. Data may be null, which is JSON.
func (m members) dropEmpty() {
	maps.DeleteFunc(m, func(name string, value json.RawMessage) bool {
		return name != "data" && (string(value) == "null" || string(value) == `""`)
	})
}

// event fills in what is missing and has the SDK judge it.
func (m members) event(in Input) (sdk.Event, error) {
	m.setMissing(specVersion, sdk.CloudEventsVersionV1)
	m.setMissing("id", cmp.Or(in.ID, rand.Text()))
	m.setMissing("source", in.Source)
	if err := m.check(); err != nil {
		return sdk.Event{}, explain(err)
	}
	ev, err := m.decode()
	if err != nil {
		return sdk.Event{}, explain(err)
	}
	for name, value := range in.Extensions {
		if _, has := ev.Extensions()[name]; !has {
			ev.SetExtension(name, value)
		}
	}
	if err := ev.Validate(); err != nil {
		return sdk.Event{}, explain(err)
	}
	m.keepSource(ev)
	return ev, nil
}

// decode has the SDK read the members, as an event of version 1.0.
func (m members) decode() (sdk.Event, error) {
	if m[dataBase64] != nil {
		delete(m, "data")
	}
	data := m["data"]
	verbatim := len(data) > 0 && data[0] != '"' && data[0] != 'n'
	if verbatim { // the SDK refuses it beside other types than its own of JSON: those that end in +json
		delete(m, "data")
	}
	var ev sdk.Event
	if err := json.Unmarshal(m.document(), &ev); err != nil {
		return sdk.Event{}, err
	}
	if verbatim {
		ev.DataEncoded = data
	}
	ev.DataBase64 = ev.DataBase64 || ev.DataEncoded != nil && !embeddable(ev.DataEncoded, ev.DataContentType())
	if m.isOld() {
		ev.SetSpecVersion(sdk.CloudEventsVersionV1)
		ev.SetExtension(contentEncoding, nil) // the data are decoded
	}
	return ev, nil
}

// keepSource gives the event the source as it was written. The SDK would percent-encode it, and Subscriptions ask for
// what was written.
func (m members) keepSource(ev sdk.Event) {
	context, isV1 := ev.Context.(*sdk.EventContextV1)
	if written := m.text("source"); isV1 && written != ev.Source() {
		context.Source = types.URIRef{URL: url.URL{Opaque: written}}
	}
}

func (m members) isOld() bool { return m.text(specVersion) == sdk.CloudEventsVersionV03 }

func (m members) text(name string) (text string) {
	_ = json.Unmarshal(m[name], &text) // check has read it
	return text
}

// document is JSON in which nothing depends on what comes later, so that the SDK reads it in one go.
func (m members) document() []byte {
	first := []string{contentEncoding, specVersion, contentType}
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(first, b), slices.Index(first, a)), strings.Compare(a, b))
	})
	text := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%q:%s", name, m[name])
	}
	return append(text, '}')
}
