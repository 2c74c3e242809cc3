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

// IsBinary tells whether headers are those of an event in binary mode.
func IsBinary(header map[string][]string) bool {
	for name := range header {
		if strings.EqualFold(name, headerPrefix+"specversion") {
			return true
		}
	}
	return false
}

// FromBinary reads an event in binary mode. Names of headers may have any case. Like FromStructured, it does not check
// that the attributes make sense.
func FromBinary(header map[string][]string, body []byte) (Event, error) {
	var e Event
	for name, values := range header {
		if len(values) == 0 {
			continue
		}
		if strings.EqualFold(name, headerContentType) {
			e.DataContentType = values[0]
			continue
		}
		if len(name) <= len(headerPrefix) || !strings.EqualFold(name[:len(headerPrefix)], headerPrefix) {
			continue
		}
		if err := e.setHeader(strings.ToLower(name[len(headerPrefix):]), values[0]); err != nil {
			return Event{}, err
		}
	}
	if len(body) > 0 {
		e.Data = body
	}
	return e, nil
}

func (e *Event) setHeader(attribute, value string) error {
	if attribute == "specversion" {
		if value != "1.0" && value != "0.3" {
			return fmt.Errorf("unknown specversion %s", value)
		}
		return nil
	}
	if place := e.place(attribute); place != nil {
		*place = value
		return nil
	}
	if !isName(attribute) {
		return fmt.Errorf("%q is no name for an extension: letters and digits only", attribute)
	}
	e.SetExtension(attribute, value)
	return nil
}

// SetHeader writes the attributes as headers of binary mode. Values are percent-encoded where a header cannot carry
// them: control characters only, because few receivers decode what the specification would have encoded.
func (e *Event) SetHeader(h http.Header) {
	h["Ce-Specversion"] = []string{"1.0"}
	for _, a := range [...]struct{ name, value string }{
		{"Ce-Id", e.ID},
		{"Ce-Source", e.Source},
		{"Ce-Type", e.Type},
		{"Ce-Subject", e.Subject},
		{"Ce-Time", e.Time},
		{"Ce-Dataschema", e.DataSchema},
		{headerContentType, e.DataContentType},
	} {
		if a.value != "" {
			h[a.name] = []string{headerValue(a.value)}
		}
	}
	for _, x := range e.Extensions {
		h[headerName(x.Name)] = []string{headerValue(x.Value)}
	}
}

// headerName is Ce- and the name with a capital.
func headerName(extension string) string {
	if extension == "originaltype" { // every event has it
		return "Ce-Originaltype"
	}
	name := []byte(headerPrefix + extension)
	if c := name[len(headerPrefix)]; c >= 'a' && c <= 'z' {
		name[len(headerPrefix)] = c - 'a' + 'A'
	}
	return string(name)
}

const hexDigits = "0123456789ABCDEF"

func headerValue(value string) string {
	if strings.IndexFunc(value, isControl) < 0 {
		return value
	}
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; isControl(rune(c)) {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isControl(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }
