package cloudevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrNotStructured means that bytes are no JSON event at all, so that they may be the data of one in binary mode.
var ErrNotStructured = errors.New("the body is not a structured CloudEvent")

// FromStructured reads a JSON event. It does not check that the attributes make sense, and it reads data as they are:
// whoever takes bytes from strangers checks with json.Valid first, and with Validate after.
func FromStructured(body []byte) (Event, error) {
	var e Event
	r := reader{event: &e}
	if err := eachMember(body, r.member); err != nil {
		return Event{}, err
	}
	if !r.version {
		return Event{}, ErrNotStructured
	}
	return e, r.finish()
}

// reader gathers the members of a JSON event.
type reader struct {
	event         *Event
	version       bool
	data          []byte // as written
	base64        []byte // as written
	encodedAsData bool   // version 0.3 says so with an attribute of its own
}

func (r *reader) member(rawName, value []byte) error {
	name, ok := unquote(rawName)
	if !ok {
		return errors.New("a name is no string")
	}
	switch name {
	case "data":
		r.data = value
		return nil
	case "data_base64":
		r.base64 = value
		return nil
	case "datacontentencoding":
		text, _ := unquote(value)
		r.encodedAsData = strings.EqualFold(text, "base64")
		return nil
	case "specversion":
		text, _ := unquote(value)
		if text != "1.0" && text != "0.3" {
			return fmt.Errorf("unknown specversion %s", value)
		}
		r.version = true
		return nil
	}
	if place := r.event.place(name); place != nil {
		return setText(place, name, value)
	}
	return r.extension(strings.ToLower(name), value)
}

// setText leaves out what is null.
func setText(place *string, name string, value []byte) error {
	if value[0] == 'n' {
		return nil
	}
	text, ok := unquote(value)
	if !ok {
		return fmt.Errorf("%s is not a string", name)
	}
	*place = text
	return nil
}

func (r *reader) extension(name string, value []byte) error {
	if !isName(name) || r.event.place(name) != nil {
		return fmt.Errorf("%q is no name for an extension: letters and digits only, and no attribute's name", name)
	}
	x := Extension{Name: name}
	switch value[0] {
	case 'n':
		return nil
	case '"':
		text, ok := unquote(value)
		if !ok {
			return fmt.Errorf("%s is not a string", name)
		}
		x.Value = text
	case 't', 'f':
		x.Value, x.Kind = string(value), Bool
	case '{', '[':
		return fmt.Errorf("%s is neither text nor a number nor a truth value", name)
	default:
		x.Value = string(value)
		if _, err := strconv.ParseInt(x.Value, 10, 32); err == nil {
			x.Kind = Integer
		}
	}
	r.event.set(x)
	return nil
}

// finish reads the data, when all attributes are known.
func (r *reader) finish() error {
	encoded := r.base64
	if encoded == nil && r.encodedAsData {
		encoded = r.data
	}
	if encoded != nil {
		return r.decode(encoded)
	}
	if r.data == nil {
		return nil
	}
	r.event.Data = r.data
	if isJSON(r.event.DataContentType) {
		return nil
	}
	if r.data[0] == '"' {
		text, ok := unquote(r.data)
		if !ok {
			return errors.New("data are not a string")
		}
		r.event.Data = []byte(text)
	} else if bytes.Equal(r.data, []byte("null")) {
		r.event.Data = nil
	}
	return nil
}

func (r *reader) decode(encoded []byte) error {
	text, ok := unquote(encoded)
	if !ok {
		return errors.New("data in base64 are not a string")
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("data in base64: %w", err)
	}
	r.event.Data, r.event.Base64 = data, true
	return nil
}

// unquote reads a JSON string.
func unquote(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// isJSON tells whether data of a content type stand in a JSON event as they are. Without one they are JSON.
func isJSON(contentType string) bool {
	if contentType == "" || contentType == "application/json" {
		return true
	}
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/json", "text/json", "application/cloudevents+json", "application/cloudevents-batch+json", "":
		return true
	default:
		return false
	}
}
