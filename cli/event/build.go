package event

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"

	"github.com/rouse-run/rouse/cli/exit"
)

// Input is the part of the command line about what to publish.
type Input struct {
	Type        string
	Source      string
	ID          string
	Subject     string
	ContentType string
	Extensions  map[string]string

	HasContent bool
	Content    []byte // data, or whole events when there is no Type
}

// Batch is events that are sent together.
type Batch struct {
	Events []sdk.Event
	Single bool // one event that was not written as an array
}

// Build makes the events. What it refuses is the fault of the command line or the file.
func Build(in Input) (Batch, error) {
	for name := range in.Extensions {
		if !isExtension(name) {
			return Batch{}, exit.Errorf(exit.Usage, "--extension %s: a name has lower-case letters and digits alone, and is no attribute with a flag of its own", name)
		}
	}
	if in.Type == "" {
		return wholeEvents(in)
	}
	if in.Source == "" {
		return Batch{}, exit.Errorf(exit.Usage, "--source is missing: say where the event comes from, as the Subscriptions that want it do")
	}
	m := members{}
	m.set("type", in.Type)
	m.set("subject", in.Subject)
	m.set(contentType, in.ContentType)
	if in.HasContent {
		if in.ContentType == "" {
			in.ContentType = contentTypeOf(in.Content)
			m.set(contentType, in.ContentType)
		}
		if isJSON(in.ContentType) && !json.Valid(in.Content) {
			return Batch{}, exit.Errorf(exit.Usage, "the data is no JSON: correct it, or name its type with --content-type")
		}
	}
	ev, err := m.event(in)
	if err != nil {
		return Batch{}, exit.Errorf(exit.Usage, "this makes no event: %w", err)
	}
	if in.HasContent {
		ev.DataEncoded = in.Content
		ev.DataBase64 = !embeddable(in.Content, in.ContentType)
	}
	return Batch{Events: []sdk.Event{ev}, Single: true}, nil
}

// wholeEvents reads one structured event or an array of them. Flags fill in what they do not have.
func wholeEvents(in Input) (Batch, error) {
	content := bytes.TrimSpace(in.Content)
	if len(content) == 0 {
		return Batch{}, exit.Errorf(exit.Usage, "--type is missing: name the event's type, or give whole events with --data-file")
	}
	var each []json.RawMessage
	single := content[0] != '['
	if single {
		each = []json.RawMessage{content}
	} else if err := json.Unmarshal(content, &each); err != nil {
		return Batch{}, exit.Errorf(exit.Usage, "the events are no JSON array: %w", err)
	}
	switch {
	case len(each) == 0:
		return Batch{}, exit.Errorf(exit.Usage, "the array holds no events")
	case len(each) > 1 && in.ID != "":
		return Batch{}, exit.Errorf(exit.Usage, "--id names one event, and there are %d: write the ids into them", len(each))
	}
	batch := Batch{Single: single}
	for i, text := range each {
		ev, err := wholeEvent(text, in)
		if err != nil {
			return Batch{}, exit.Errorf(exit.Usage, "event %d: %w", i+1, err)
		}
		batch.Events = append(batch.Events, ev)
	}
	return batch, nil
}

// wholeEvent fills in what an event needs and people leave out, before it is judged.
func wholeEvent(text []byte, in Input) (sdk.Event, error) {
	var m members
	if err := json.Unmarshal(text, &m); err != nil {
		return sdk.Event{}, fmt.Errorf("it is no JSON object: %w", err)
	}
	m.dropEmpty()
	if _, has := m["type"]; !has {
		return sdk.Event{}, errors.New("it has no type; if this is data and no event, name its type with --type")
	}
	if _, has := m["source"]; !has && in.Source == "" {
		return sdk.Event{}, errors.New("it has no source: add one, or --source for all that have none")
	}
	// Without a type data are JSON, which headers have to say.
	if _, has := m["data"]; has && m[contentEncoding] == nil && m[dataBase64] == nil {
		m.setMissing(contentType, typeJSON)
	}
	return m.event(in)
}

// embeddable reports whether data come back byte for byte when they stand in a JSON event. White space around a value
// would be lost.
func embeddable(data []byte, contentType string) bool {
	if !utf8.Valid(data) {
		return false
	}
	return !isJSON(contentType) || json.Valid(data) && len(bytes.TrimSpace(data)) == len(data)
}

func contentTypeOf(data []byte) string {
	switch {
	case json.Valid(data):
		return typeJSON
	case utf8.Valid(data):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == typeJSON || media == sdk.TextJSON || strings.HasSuffix(media, "+json")
}

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

// check finds what the SDK does not see, takes for something else, or reports without the name of the member.
func (m members) check() error {
	invalid := sdk.ValidationError{}
	for name, value := range m {
		var err error
		switch {
		case name == "data":
			err = m.checkData(value)
		case name == dataBase64 && m.isOld(): // for the SDK it is an extension
			err = errors.New("is no member of version 0.3; write specversion 1.0")
		case name == dataBase64, isAttribute(name):
			err = m.checkAttribute(name)
		case !isExtension(strings.ToLower(name)):
			err = errors.New("is not a name for an extension: letters and digits only")
		default:
			err = m.checkExtension(name, value)
		}
		if err != nil {
			invalid[name] = err
		}
	}
	if len(invalid) > 0 {
		return invalid
	}
	return nil
}

// checkData asks for a string where the SDK would take its ends off unseen.
func (m members) checkData(value json.RawMessage) error {
	if m[contentEncoding] != nil && m.isOld() && value[0] != '"' {
		return errors.New("MUST be a string with base64")
	}
	return nil
}

// checkAttribute leaves an attribute without escapes, which the SDK does not expect in base64.
func (m members) checkAttribute(name string) error {
	var text string
	if err := json.Unmarshal(m[name], &text); err != nil {
		return errors.New("MUST be a string")
	}
	m.set(name, text)
	switch name {
	case "source":
		if types.ParseURIRef(text) == nil {
			return errors.New("is no URI-reference")
		}
	case "dataschema":
		if types.ParseURI(text) == nil { // the SDK leaves it out
			return errors.New("is no URI")
		}
	case "time":
		if _, err := types.ParseTimestamp(text); err != nil {
			return errors.New("is no RFC 3339 timestamp")
		}
	}
	return nil
}

// checkExtension turns numbers into texts that are none of CloudEvents: the SDK would cut off what it cannot hold.
func (m members) checkExtension(name string, value json.RawMessage) error {
	switch value[0] {
	case '{', '[':
		return errors.New("MUST be a string, a number or a truth value")
	case 't', 'f':
		return nil
	case '"':
		m.set(name, m.text(name)) // in UTF-8, whatever it was
		return nil
	}
	if _, err := strconv.ParseInt(string(value), 10, 32); err != nil {
		m.set(name, string(value))
	}
	return nil
}

func isAttribute(name string) bool {
	switch name {
	case specVersion, "id", "source", "type", "subject", "time", contentType, "dataschema":
		return true
	}
	return false
}

// isExtension is true for the name of an extension in lower case.
func isExtension(name string) bool {
	return sdk.IsExtensionNameValid(name) && name == strings.ToLower(name) && !isAttribute(name) && name != "data"
}

// remedies are how to write what the SDK refuses.
var remedies = map[string]string{
	specVersion:  `write "1.0", or leave it out`,
	contentType:  "write one as application/json",
	"dataschema": "write an absolute URI, as https://example.com/order.json",
	"id":         "write one, or leave it out for a random one",
	"source":     "write one, as shop or /shop/orders",
	"time":       "write it as 2026-01-02T03:04:05Z",
}

// explain names each member that the SDK refuses, in the order of their names, with the remedy.
func explain(err error) error {
	if _, corrupt := errors.AsType[base64.CorruptInputError](err); corrupt {
		return fmt.Errorf("the data: MUST be base64: %w", err)
	}
	invalid, ok := errors.AsType[sdk.ValidationError](err)
	if !ok {
		return err
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(invalid)) {
		line := fmt.Sprintf("%.40s: %v", name, invalid[name])
		if remedy := remedies[name]; remedy != "" {
			line += "; " + remedy
		}
		lines = append(lines, line)
	}
	return errors.New(strings.Join(lines, "\n"))
}
