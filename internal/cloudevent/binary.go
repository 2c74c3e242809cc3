package cloudevent

import (
	"net/http"
	"strings"
)

const (
	headerPrefix      = "Ce-"
	headerContentType = "Content-Type"
)

// SetHeader writes the attributes as headers of binary mode. Values are percent-encoded where a header cannot carry
// them: control characters only, because few receivers decode what the specification would have encoded.
func (e *Event) SetHeader(h http.Header) {
	h["Ce-Specversion"] = []string{"1.0"}
	for _, a := range [...]struct{ name, value string }{
		{"Ce-Id", e.ID}, {"Ce-Source", e.Source}, {"Ce-Type", e.Type}, {"Ce-Subject", e.Subject}, {"Ce-Time", e.Time},
		{"Ce-Dataschema", e.DataSchema}, {headerContentType, e.DataContentType},
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
