package cloudevent

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Event is one CloudEvent of version 1.0. Attributes that are "" are absent.
type Event struct {
	ID              string
	Source          string
	Type            string
	Subject         string
	Time            string // as it was written, RFC 3339
	DataContentType string
	DataSchema      string
	Extensions      []Extension // in the order of their names
	Data            []byte      // verbatim
	Base64          bool        // the publisher wrote the data as base64, and so they stay

	json []byte // data that were found to be JSON

	// Publisher is the namespace in whose name the event is published, empty where that is not known. It is no attribute: it is
	// neither read nor written.
	Publisher string
}

// Extension is an attribute that the specification does not name.
type Extension struct {
	Name  string // lower-case letters and digits
	Value string
	Kind  Kind
}

// Kind is how an extension is written in JSON.
type Kind int

// The kinds.
const (
	String Kind = iota
	Bool
	Integer
)

// Extension is the value of an extension, "" when there is none.
func (e *Event) Extension(name string) string {
	if i, found := e.find(name); found {
		return e.Extensions[i].Value
	}
	return ""
}

// SetExtension sets an extension to a text.
func (e *Event) SetExtension(name, value string) {
	e.set(Extension{Name: name, Value: value})
}

// DeleteExtension takes an extension away.
func (e *Event) DeleteExtension(name string) {
	if i, found := e.find(name); found {
		e.Extensions = slices.Delete(e.Extensions, i, i+1)
	}
}

func (e *Event) set(extension Extension) {
	i, found := e.find(extension.Name)
	if found {
		e.Extensions[i] = extension
		return
	}
	e.Extensions = append(e.Extensions, Extension{}) // slices.Insert would allocate its argument
	copy(e.Extensions[i+1:], e.Extensions[i:])
	e.Extensions[i] = extension
}

// sortExtensions brings what was appended into order. Of several with one name the last counts.
func (e *Event) sortExtensions() {
	if len(e.Extensions) < 2 {
		return
	}
	slices.SortStableFunc(e.Extensions, func(a, b Extension) int { return strings.Compare(a.Name, b.Name) })
	kept := e.Extensions[:1]
	for _, x := range e.Extensions[1:] {
		if last := len(kept) - 1; kept[last].Name == x.Name {
			kept[last] = x
		} else {
			kept = append(kept, x)
		}
	}
	e.Extensions = kept
}

func (e *Event) find(name string) (int, bool) {
	return slices.BinarySearchFunc(e.Extensions, name, func(x Extension, name string) int { return strings.Compare(x.Name, name) })
}

// CheckJSON reports whether the data are one JSON value, and remembers if they are: to write the event takes no second scan.
func (e *Event) CheckJSON() bool {
	if !e.hasJSON() {
		return false
	}
	e.json = e.Data
	return true
}

func (e *Event) hasJSON() bool {
	if len(e.Data) == 0 {
		return false
	}
	return len(e.json) == len(e.Data) && &e.json[0] == &e.Data[0] || ValidJSON(e.Data)
}

// Attribute is any attribute by its name, extensions included.
func (e *Event) Attribute(name string) (value string, ok bool) {
	switch name {
	case specVersion:
		return version1, true
	case "id":
		value = e.ID
	case "source":
		value = e.Source
	case "type":
		value = e.Type
	case "subject":
		value = e.Subject
	case "time":
		value = e.Time
	case "datacontenttype":
		value = e.DataContentType
	case "dataschema":
		value = e.DataSchema
	default:
		i, found := e.find(name)
		if !found {
			return "", false
		}
		return e.Extensions[i].Value, true
	}
	return value, value != ""
}

// place is where an attribute of the specification is kept, nil for an extension.
func (e *Event) place(name string) *string {
	switch name {
	case "id":
		return &e.ID
	case "source":
		return &e.Source
	case "type":
		return &e.Type
	case "subject":
		return &e.Subject
	case "time":
		return &e.Time
	case "datacontenttype":
		return &e.DataContentType
	case "dataschema":
		return &e.DataSchema
	default:
		return nil
	}
}

func isName(name string) bool {
	switch name {
	case "", "data", specVersion:
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Validate says everything that is wrong with the attributes, a line for each.
func (e *Event) Validate() error {
	var lines []string
	report := func(ok bool, line string) {
		if !ok {
			lines = append(lines, line)
		}
	}
	report(e.DataContentType == "" || isMediaType(e.DataContentType), "datacontenttype: MUST be a media type")
	report(e.DataSchema == "" || isURI(e.DataSchema), "dataschema: MUST be a URI")
	report(isText(e.ID), "id: MUST be a non-empty string")
	report(isText(e.Source), "source: REQUIRED")
	report(!isText(e.Source) || isURIReference(e.Source), "source: MUST be a URI-reference")
	report(e.Subject == "" || isText(e.Subject), "subject: MUST be a non-empty string")
	report(e.Time == "" || isTime(e.Time), "time: MUST be a RFC 3339 timestamp")
	report(isText(e.Type), "type: MUST be a non-empty string")
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// CheckText says which attribute JSON cannot carry. Validate lets it pass, because bytes of headers may be anything, and
// what others stored is delivered as it is.
func (e *Event) CheckText() error {
	for _, a := range [...]struct{ name, value string }{
		{"id", e.ID},
		{"source", e.Source},
		{"type", e.Type},
		{"subject", e.Subject},
		{"time", e.Time},
		{"datacontenttype", e.DataContentType},
		{"dataschema", e.DataSchema},
	} {
		if !utf8.ValidString(a.value) {
			return fmt.Errorf("%s: MUST be valid UTF-8", a.name)
		}
	}
	for i := range e.Extensions {
		if !utf8.ValidString(e.Extensions[i].Value) {
			return fmt.Errorf("%s: MUST be valid UTF-8", e.Extensions[i].Name)
		}
	}
	return nil
}

func isText(text string) bool { return strings.TrimSpace(text) != "" }

// isPlain is true for a text of letters, digits, dots and the like, which is also a URI-reference.
func isPlain(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' && c != '/' {
			return false
		}
	}
	return text != ""
}

func isURIReference(text string) bool {
	if isPlain(text) {
		return true
	}
	parsed, err := url.Parse(text)
	return err == nil && parsed.String() != "" // as that of "#" is
}

func isURI(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.IsAbs()
}

func isMediaType(text string) bool {
	switch text {
	case "application/json", "application/json; charset=utf-8", "text/plain", "application/octet-stream":
		return true
	}
	_, _, err := mime.ParseMediaType(text)
	return err == nil
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

// Bounds are what an event may have beside its data. Extensions take many times the memory that they are written in, and
// receivers have all attributes as headers, of which no server takes any number. 0 bounds nothing: so are events read
// that are stored already.
type Bounds struct {
	Extensions int // how many there are, those that are written twice included
	Attributes int // bytes of all attributes: values, and names of extensions
}

// extensions is asked while an event is read, so that what is too much is never in memory.
func (b Bounds) extensions(e *Event) error {
	if b.Extensions > 0 && len(e.Extensions) > b.Extensions {
		return fmt.Errorf("the event has more than %d extensions", b.Extensions)
	}
	return nil
}

// Check says what of an event that was read otherwise is too much.
func (b Bounds) Check(e *Event) error {
	if err := b.extensions(e); err != nil || b.Attributes == 0 {
		return err
	}
	size := len(e.ID) + len(e.Source) + len(e.Type) + len(e.Subject) + len(e.Time) + len(e.DataContentType) + len(e.DataSchema)
	for i := range e.Extensions {
		size += len(e.Extensions[i].Name) + len(e.Extensions[i].Value)
	}
	if size > b.Attributes {
		return fmt.Errorf("the event has more than %d bytes of attributes", b.Attributes)
	}
	return nil
}

// unquote reads a JSON string. The text may be a part of raw. Half of a character that is escaped becomes U+FFFD, and so do
// bytes that are no UTF-8 beside an escape; without one they stay as they are.
func unquote(raw []byte) (text []byte, ok bool) {
	if raw[0] != '"' {
		return nil, false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	text, _ = jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw) // it fails for what became U+FFFD
	return text, true
}

// appendString quotes a text. What is no UTF-8 becomes U+FFFD.
func appendString[T string | []byte](dst []byte, text T) []byte {
	dst, _ = jsontext.AppendQuote(dst, text) // it fails for what became U+FFFD
	return dst
}
