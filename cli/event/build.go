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

// Input holds the flags that describe the events to publish.
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

// Batch is a list of events that are sent together.
type Batch struct {
	Events []sdk.Event
	Single bool // one event that was not written as an array
}

// Build returns the events. Its errors are errors of the command line or the file.
func Build(in Input) (Batch, error) {
	for name := range in.Extensions {
		if !isExtension(name) {
			return Batch{}, exit.Errorf(exit.Usage, "--extension %s: a name consists of lower-case letters and digits, and is not an attribute with a flag of its own", name)
		}
	}
	if in.Type == "" {
		return wholeEvents(in)
	}
	if in.Source == "" {
		return Batch{}, exit.Errorf(exit.Usage, "--source is missing: set the source that the Subscriptions of the event have")
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
		if err := checkJSON(in.ContentType, in.Content); err != nil {
			return Batch{}, exit.Errorf(exit.Usage, "the data are malformed JSON: %w; correct them, or say what they are, such as --content-type text/plain", err)
		}
	}
	ev, err := m.event(in)
	if err != nil {
		return Batch{}, exit.Errorf(exit.Usage, "the flags do not make a valid event: %w", err)
	}
	if in.HasContent {
		ev.DataEncoded = in.Content
		ev.DataBase64 = !embeddable(in.Content, in.ContentType)
	}
	return Batch{Events: []sdk.Event{ev}, Single: true}, nil
}

// wholeEvents reads a structured event or an array of them. Flags set the attributes that are missing.
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
		return Batch{}, exit.Errorf(exit.Usage, "the events are not a JSON array: %w", err)
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

// wholeEvent adds the attributes that people leave out, and validates the event.
func wholeEvent(text []byte, in Input) (sdk.Event, error) {
	var m members
	if err := json.Unmarshal(text, &m); err != nil {
		return sdk.Event{}, fmt.Errorf("it is not a JSON object: %w", err)
	}
	m.dropEmpty()
	if _, has := m["type"]; !has {
		return sdk.Event{}, errors.New("it has no type; if this is data and not an event, set --type")
	}
	if _, has := m["source"]; !has && in.Source == "" {
		return sdk.Event{}, errors.New("it has no source: add one, or --source for all without one")
	}
	// Without a content type data are JSON, which headers have to declare.
	if _, has := m["data"]; has && m[contentEncoding] == nil && m[dataBase64] == nil {
		m.setMissing(contentType, typeJSON)
	}
	return m.event(in)
}

// embeddable reports whether data survive byte for byte in a JSON event. White space around a value would be lost.
func embeddable(data []byte, contentType string) bool {
	if !utf8.Valid(data) {
		return false
	}
	return !isJSON(contentType) || json.Valid(data) && len(bytes.TrimSpace(data)) == len(data)
}

// contentTypeOf tells the type of data. What begins as an object or an array is meant to be JSON, also when it is malformed.
func contentTypeOf(data []byte) string {
	switch {
	case json.Valid(data), bytes.IndexAny(bytes.TrimSpace(data), "{[") == 0 && utf8.Valid(data):
		return typeJSON
	case utf8.Valid(data):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// checkJSON returns what is wrong with data whose type is JSON, and where.
func checkJSON(contentType string, data []byte) error {
	if !isJSON(contentType) {
		return nil
	}
	err := json.Unmarshal(data, new(json.RawMessage))
	wrong, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return err
	}
	before := data[:max(0, min(int(wrong.Offset), len(data))-1)]
	line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
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

// members are the members of a JSON event.
type members map[string]json.RawMessage

// set sets a member unless the value is empty.
func (m members) set(name, value string) {
	if value != "" {
		m[name], _ = json.Marshal(value) // it cannot fail for a string
	}
}

func (m members) setMissing(name, value string) {
	if _, has := m[name]; !has {
		m.set(name, value)
	}
}

// dropEmpty removes null members except data, which may be null.
func (m members) dropEmpty() {
	maps.DeleteFunc(m, func(name string, value json.RawMessage) bool {
		return name != "data" && (string(value) == "null" || string(value) == `""`)
	})
}

// event sets missing attributes and validates the event with the SDK.
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

// decode decodes the members with the SDK, as an event of version 1.0.
func (m members) decode() (sdk.Event, error) {
	if m[dataBase64] != nil {
		delete(m, "data")
	}
	data := m["data"]
	verbatim := len(data) > 0 && data[0] != '"' && data[0] != 'n'
	if verbatim { // the SDK refuses it with JSON types other than its own: those that end in +json
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

// keepSource sets the source as it was written. The SDK would percent-encode it, and Subscriptions match the original.
func (m members) keepSource(ev sdk.Event) {
	context, isV1 := ev.Context.(*sdk.EventContextV1)
	if written := m.text("source"); isV1 && written != ev.Source() {
		context.Source = types.URIRef{URL: url.URL{Opaque: written}}
	}
}

func (m members) isOld() bool { return m.text(specVersion) == sdk.CloudEventsVersionV03 }

func (m members) text(name string) (text string) {
	_ = json.Unmarshal(m[name], &text) // check validated it
	return text
}

// document returns JSON with members in the order in which the SDK can decode them in one pass.
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

// check validates what the SDK ignores, misreads, or reports without the name of the member.
func (m members) check() error {
	invalid := sdk.ValidationError{}
	for name, value := range m {
		var err error
		switch {
		case name == "data":
			err = m.checkData(value)
		case name == dataBase64 && m.isOld(): // the SDK takes it for an extension
			err = errors.New("is not a member of version 0.3; set specversion 1.0")
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

// checkData requires a string where the SDK would cut off the first and the last character.
func (m members) checkData(value json.RawMessage) error {
	if m[contentEncoding] != nil && m.isOld() && value[0] != '"' {
		return errors.New("MUST be a string with base64")
	}
	return nil
}

// checkAttribute validates an attribute and removes JSON escapes, which the SDK does not expect in base64.
func (m members) checkAttribute(name string) error {
	var text string
	if err := json.Unmarshal(m[name], &text); err != nil {
		return errors.New("MUST be a string")
	}
	m.set(name, text)
	switch name {
	case "source":
		if types.ParseURIRef(text) == nil {
			return errors.New("is not a URI-reference")
		}
	case "dataschema":
		if types.ParseURI(text) == nil { // the SDK drops it
			return errors.New("is not a URI")
		}
	case "time":
		if _, err := types.ParseTimestamp(text); err != nil {
			return errors.New("is not an RFC 3339 timestamp")
		}
	}
	return nil
}

// checkExtension converts numbers that CloudEvents cannot represent to strings: the SDK would truncate them.
func (m members) checkExtension(name string, value json.RawMessage) error {
	switch value[0] {
	case '{', '[':
		return errors.New("MUST be a string, a number or a boolean")
	case 't', 'f':
		return nil
	case '"':
		m.set(name, m.text(name)) // in UTF-8
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

// isExtension reports whether a name is that of an extension, in lower case.
func isExtension(name string) bool {
	return sdk.IsExtensionNameValid(name) && name == strings.ToLower(name) && !isAttribute(name) && name != "data"
}

// remedies maps attributes that the SDK refuses to their syntax.
var remedies = map[string]string{
	specVersion:  `write "1.0", or leave it out`,
	contentType:  "write one as application/json",
	"dataschema": "write an absolute URI, as https://example.com/order.json",
	"id":         "write one, or leave it out for a random one",
	"source":     "write one, as shop or /shop/orders",
	"time":       "write it as 2026-01-02T03:04:05Z",
}

// explain returns an error that lists each member that the SDK refuses, by name, with the remedy.
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
