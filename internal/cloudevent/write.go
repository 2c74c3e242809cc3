package cloudevent

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// AppendStructured writes the event as JSON.
func (e *Event) AppendStructured(dst []byte) []byte {
	dst = append(dst, `{"specversion":"1.0"`...)
	for _, a := range [...]struct{ name, value string }{
		{"id", e.ID},
		{"source", e.Source},
		{"type", e.Type},
		{"subject", e.Subject},
		{"time", e.Time},
		{"datacontenttype", e.DataContentType},
		{"dataschema", e.DataSchema},
	} {
		if a.value != "" {
			dst = append(dst, ',', '"')
			dst = append(dst, a.name...)
			dst = append(dst, '"', ':')
			dst = appendString(dst, a.value)
		}
	}
	for _, x := range e.Extensions {
		dst = append(dst, ',', '"')
		dst = append(dst, x.Name...)
		dst = append(dst, '"', ':')
		if x.Kind == String {
			dst = appendString(dst, x.Value)
		} else {
			dst = append(dst, x.Value...)
		}
	}
	return append(e.appendData(dst), '}')
}

// appendData writes JSON as it is, text as a string, and the rest as base64.
func (e *Event) appendData(dst []byte) []byte {
	switch {
	case len(e.Data) == 0:
		return dst
	case e.Base64 || !utf8.Valid(e.Data):
	case !isJSON(e.DataContentType):
		return appendString(append(dst, `,"data":`...), string(e.Data))
	case embeddable(e.Data):
		return append(append(dst, `,"data":`...), e.Data...)
	}
	dst = append(dst, `,"data_base64":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, e.Data)
	return append(dst, '"')
}

// maxDepth of JSON that is embedded. Readers give up at different depths; deeper data become base64.
const maxDepth = 500

// embeddable tells whether data can stand in a JSON event and come back byte for byte. White space around a value would
// be lost.
func embeddable(data []byte) bool {
	const whiteSpace = " \t\r\n"
	if strings.IndexByte(whiteSpace, data[0]) >= 0 || strings.IndexByte(whiteSpace, data[len(data)-1]) >= 0 {
		return false
	}
	return json.Valid(data) && depth(data) <= maxDepth
}

// depth of nesting in valid JSON.
func depth(data []byte) int {
	deepest, current := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i) - 1
		case '{', '[':
			current++
			deepest = max(deepest, current)
		case '}', ']':
			current--
		}
	}
	return deepest
}

// appendString quotes text that needs no care by itself, and leaves the rest to encoding/json.
func appendString(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(text) // a string is always written
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
