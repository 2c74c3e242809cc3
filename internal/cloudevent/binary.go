package cloudevent

import (
	"fmt"
	"net/http"
	"strings"
)

const (
	headerPrefix      = "Ce-"
	headerContentType = "Content-Type"
)

// IsBinary reports whether headers are those of an event in binary mode.
func IsBinary(header map[string][]string) bool {
	for name := range header {
		if strings.EqualFold(name, headerPrefix+specVersion) {
			return true
		}
	}
	return false
}

// FromBinary reads an event in binary mode. Names of headers may have any case. Like FromStructured, it does not check
// that the attributes make sense. The event's data are body.
func FromBinary(header map[string][]string, body []byte) (Event, error) {
	return Bounds{}.FromBinary(header, body)
}

// FromBinary is FromBinary for an event within the bounds.
func (b Bounds) FromBinary(header map[string][]string, body []byte) (Event, error) {
	r := headerReader{bounds: b}
	for name, values := range header {
		if len(values) == 0 {
			continue
		}
		if strings.EqualFold(name, headerContentType) {
			r.event.DataContentType = values[0]
			continue
		}
		if len(name) <= len(headerPrefix) || !strings.EqualFold(name[:len(headerPrefix)], headerPrefix) {
			continue
		}
		if err := r.attribute(name[len(headerPrefix):], values[0]); err != nil {
			return Event{}, err
		}
	}
	ev, err := r.finish(body)
	if err == nil {
		err = b.Check(&ev)
	}
	if err != nil {
		return Event{}, err
	}
	return ev, nil
}

// headerReader gathers the headers of an event. What the last two mean depends on the version.
type headerReader struct {
	event               Event
	bounds              Bounds
	version             string
	encoding, schemaURL *string
}

func (r *headerReader) attribute(name, value string) error {
	switch name = lower(name); name {
	case specVersion:
		r.version = value
	case "datacontenttype": // it is said by Content-Type
	case "datacontentencoding":
		r.encoding = &value
	case "schemaurl":
		r.schemaURL = &value
	default:
		if place := r.event.place(name); place != nil {
			*place = value
			return nil
		}
		if !isName(name) {
			return fmt.Errorf("%.40q: is not a name for an extension: letters and digits only", name)
		}
		r.event.Extensions = append(r.event.Extensions, Extension{Name: name, Value: value})
	}
	return r.bounds.extensions(&r.event)
}

func (r *headerReader) finish(body []byte) (Event, error) {
	switch r.version {
	case version1:
		r.extension("schemaurl", r.schemaURL)
		r.extension("datacontentencoding", r.encoding)
	case version0_3:
		if r.schemaURL != nil {
			r.event.DataSchema = *r.schemaURL
		}
		if r.encoding == nil || *r.encoding == "" {
			break
		}
		if err := checkEncoding(*r.encoding); err != nil {
			return Event{}, err
		}
		if err := r.event.setBase64(body); err != nil {
			return Event{}, err
		}
		body = nil
	default:
		return Event{}, fmt.Errorf("unknown specversion %.20s", r.version)
	}
	if len(body) > 0 {
		r.event.Data = body
	}
	r.event.sortExtensions()
	return r.event, nil
}

func (r *headerReader) extension(name string, value *string) {
	if value != nil {
		r.event.Extensions = append(r.event.Extensions, Extension{Name: name, Value: *value})
	}
}

// lower spares a copy of the names that all events have.
func lower(name string) string {
	switch name {
	case "Id":
		return "id"
	case "Type":
		return "type"
	case "Source":
		return "source"
	case "Specversion":
		return specVersion
	case "Time":
		return "time"
	case "Subject":
		return "subject"
	default:
		return strings.ToLower(name)
	}
}

// contentType is what binary mode says of the data. A JSON event without datacontenttype is one of application/json, and
// the specification asks for saying so when it is translated, because without it a body may be anything. What was written
// as base64 stays bytes.
func (e *Event) contentType() string {
	if e.DataContentType == "" && len(e.Data) > 0 && !e.Base64 && ValidJSON(e.Data) {
		return "application/json"
	}
	return e.DataContentType
}

// SetHeader writes the attributes as headers of binary mode. Values are percent-encoded where a header cannot carry
// them: control characters only, because few receivers decode what the specification would have encoded.
func (e *Event) SetHeader(h http.Header) {
	const attributes = 8
	values := make([]string, 0, attributes+len(e.Extensions)) // one array for what each header has one of
	set := func(name, value string) {
		if value != "" {
			values = append(values, headerValue(value))
			h[name] = values[len(values)-1 : len(values) : len(values)]
		}
	}
	set("Ce-Specversion", version1)
	set("Ce-Id", e.ID)
	set("Ce-Source", e.Source)
	set("Ce-Type", e.Type)
	set("Ce-Subject", e.Subject)
	set("Ce-Time", e.Time)
	set("Ce-Dataschema", e.DataSchema)
	set(headerContentType, e.contentType())
	for i := range e.Extensions {
		set(headerName(e.Extensions[i].Name), e.Extensions[i].Value)
	}
}

// headerName is Ce- and the name with a capital.
func headerName(extension string) string {
	switch extension { // without a copy for what most events have
	case "originaltype":
		return "Ce-Originaltype"
	case "traceparent":
		return "Ce-Traceparent"
	}
	name := []byte(headerPrefix + extension)
	if c := name[len(headerPrefix)]; c >= 'a' && c <= 'z' {
		name[len(headerPrefix)] = c - 'a' + 'A'
	}
	return string(name)
}

const upperHexDigits = "0123456789ABCDEF"

func headerValue(value string) string {
	controls := 0
	for i := range len(value) {
		if isControl(value[i]) {
			controls++
		}
	}
	if controls == 0 {
		return value
	}
	encoded := make([]byte, 0, len(value)+2*controls)
	for i := range len(value) {
		if c := value[i]; isControl(c) {
			encoded = append(encoded, '%', upperHexDigits[c>>4], upperHexDigits[c&15])
		} else {
			encoded = append(encoded, c)
		}
	}
	return string(encoded)
}

func isControl(c byte) bool { return (c < ' ' && c != '\t') || c == 0x7f }
